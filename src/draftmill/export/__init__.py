"""Rows to each trainer's format."""
