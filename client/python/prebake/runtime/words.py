"""Words of tables that are too long for one name a line."""


def words(text: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(text.split())
