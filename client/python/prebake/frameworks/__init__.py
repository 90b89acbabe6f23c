"""What the shims of frameworks share."""
