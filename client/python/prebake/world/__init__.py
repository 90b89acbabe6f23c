"""What surrounds a pipeline's code in its process, and may change what it yields unforeseen."""
