"""English for pages: counted nouns and shortened texts."""


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """The count with its noun: 1 piece, 2,000 pieces; plural: where it is not the noun with an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def shorten(text: str, length: int) -> str:
    """A text of at most `length` characters, cut with an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"
