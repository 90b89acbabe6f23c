"""What of a data set is shared, and how its items are made."""
