"""How an element is computed: what is driven, and what stops it."""
