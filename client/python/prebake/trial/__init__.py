"""The double run of functions."""
