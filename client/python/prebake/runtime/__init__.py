"""This process, and its daemon."""
