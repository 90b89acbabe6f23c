"""What of a stream is shared: its elements in turn, by what it asks for while it runs."""
