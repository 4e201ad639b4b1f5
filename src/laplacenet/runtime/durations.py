"""Times as people write them."""

from laplacenet.runtime.errors import InputError

UNITS = {"s": 1, "m": 60, "h": 3600}


def parse_duration(value: str | float, *, option: str) -> float:
    """Seconds from `90s`, `9m`, `2h` or a plain number; a refusal names the option."""
    text = str(value)
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    try:
        duration = float(number) * UNITS[unit]
    except ValueError:
        duration = -1.0
    if not 0 < duration < float("inf"):
        raise InputError(f"{option} {text}: give a time such as 90s, 9m or 2h")
    return duration
