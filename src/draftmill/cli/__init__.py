"""The command line: one file a verb; each parses, composes and prints."""
