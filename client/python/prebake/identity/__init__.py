"""What code, values and the world around them are."""
