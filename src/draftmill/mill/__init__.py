"""The run: prompts prepared, engines checked, answers generated and journaled, rows written."""
