"""Seeing a run: its figures out of its files alone, and what they mean."""
