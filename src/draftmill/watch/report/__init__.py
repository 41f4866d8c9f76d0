"""A run as one page to keep: what ``watch`` knows of it, drawn, and the same figures as JSON."""
