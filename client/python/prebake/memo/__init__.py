"""What Prebake found out, kept in the cache for other processes."""
