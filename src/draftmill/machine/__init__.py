"""The machine that this runs on: its memory and its GPUs."""
