"""Four jobs over the same JPEGs, without and with a cache between them."""
