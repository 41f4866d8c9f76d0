"""Durable append, torn-tail repair, resume scan, lock: the only room that writes a run's lines."""
