"""What code objects do, as far as their instructions show."""
