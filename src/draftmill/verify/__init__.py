"""Prove the data: named checks of a run's rows, or of any file of rows."""
