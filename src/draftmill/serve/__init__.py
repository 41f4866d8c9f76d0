"""A server launched as it was planned, read, and kept alive."""
