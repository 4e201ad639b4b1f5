"""Hostile content: bytes of any kind, good bytes spoiled, and JSON of the right shape with wrong values in it."""

import copy
from typing import Any

from hypothesis import strategies as st

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**300, 10**320)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["../../escape", "state-00.safetensors", "/etc/passwd", "\x00", "NaN"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def spoiled(draw: st.DrawFn, good: bytes) -> bytes:
    """Other bytes altogether, or the good ones with some changed, cut out or put in."""
    if draw(st.integers(0, 4)) == 0:
        return draw(st.binary(max_size=200))
    content = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, min(len(content), start + 20)) | st.just(len(content)))
        content[start:end] = draw(
            st.binary(max_size=8) | st.sampled_from([b"[" * 100_000, b'{"a":', b"NaN", b"-1", b"1e999"])
        )
    return bytes(content)


@st.composite
def altered(draw: st.DrawFn, good: Any) -> Any:
    """The good JSON with a few entries replaced, renamed or removed, at any depth."""
    content = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 3))):
        place = content
        while True:
            keys = (
                list(place) if isinstance(place, dict) else list(range(len(place))) if isinstance(place, list) else []
            )
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and draw(st.booleans()):
                place = place[key]
                continue
            match draw(st.integers(0, 2)):
                case 0:
                    del place[key]
                case 1 if isinstance(place, dict):
                    place[draw(st.text(max_size=6))] = place.pop(key)
                case _:
                    place[key] = draw(JSON)
            break
    return content
