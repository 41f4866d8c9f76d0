"""What counts: order, budget cut, the state of every position, rows. Pure functions over prompts and journal."""
