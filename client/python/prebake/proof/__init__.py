"""Whether what is stored may be served here: worlds, canaries, variants, hits that are verified."""
