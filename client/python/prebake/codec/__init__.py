"""A value as an element's bytes, and back."""
