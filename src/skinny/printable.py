"""Text from elsewhere (labels, names of files, tensors and layers) on its way to a terminal."""


def printable(text: object) -> str:
    """`str(text)` with all that is not a visible character escaped as in Python (`\\x1b`).

    A terminal obeys control characters: it can be made to recolour, erase or rewrite what it shows.
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in str(text)
    )
