"""What may be shared, and what may not."""
