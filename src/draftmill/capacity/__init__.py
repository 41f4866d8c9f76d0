"""What a server can hold and how fast it will be: arithmetic on a model's shape, without I/O."""
