"""The encoding that fingerprints are digests of: values, and what they hold."""
