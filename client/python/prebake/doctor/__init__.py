"""Why an identity is another in each process."""
