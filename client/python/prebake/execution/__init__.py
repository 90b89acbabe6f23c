"""Which code ran while an element was made, and which variables it read."""
