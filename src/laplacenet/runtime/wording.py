"""Numbers in sentences."""


def counted(n: int, noun: str) -> str:
    """1 picture, 2 pictures, 3 classes."""
    return f"{n} {in_number(n, noun)}"


def in_number(n: int, noun: str) -> str:
    """The noun as it follows this number."""
    return noun if n == 1 else f"{noun}es" if noun.endswith("s") else f"{noun}s"
