"""Numbers in sentences."""


def counted(n: int, noun: str) -> str:
    """1 picture, 2 pictures, 3 classes."""
    ending = "" if n == 1 else "es" if noun.endswith("s") else "s"
    return f"{n} {noun}{ending}"
