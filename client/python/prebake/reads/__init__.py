"""What an item reads: files, stats, objects of a store."""
