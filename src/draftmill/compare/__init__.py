"""Two runs, or two servers, side by side: what differs, and whether it matters."""
