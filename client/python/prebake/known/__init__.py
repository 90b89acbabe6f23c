"""Tables of well-known packages: what their calls yield, which of their classes draw."""
