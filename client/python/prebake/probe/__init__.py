"""The double run: whether a pipeline's steps yield the same in another process."""
