"""The decoder from JSON to dataclasses: what goes out comes back, and what does not fit is refused with its place."""

import dataclasses
import enum
import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laplacenet.runtime import InputError
from laplacenet.runtime.decoding import decode, later_setting
from laplacenet.runtime.settings import from_json, override, to_json


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Point:
    x: float
    y: float | None = None


@dataclass(frozen=True)
class Method:
    name: str = "plain"

    def __post_init__(self) -> None:
        if self.name not in METHODS:
            raise InputError(f"unknown method {self.name!r}")


@dataclass(frozen=True)
class FixMatch(Method):
    name: str = "fixmatch"
    threshold: float = 0.95

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.threshold <= 1:
            raise InputError(f"method.threshold = {self.threshold}; it must lie between 0 and 1")


METHODS = {"plain": Method, "fixmatch": FixMatch}


def method_of(content: dict[str, Any]) -> type:
    if content.get("name") not in METHODS:
        raise InputError(f"unknown method {content.get('name')!r}; choose one of {', '.join(METHODS)}")
    return METHODS[content["name"]]


CHOOSE = {Method: method_of}


@dataclass(frozen=True)
class Drawing:
    """One field of every kind that the decoder knows."""

    name: str
    n: int
    is_done: bool
    points: tuple[Point, ...]
    size: tuple[int, float]
    origin: Point | None
    color: Color
    unit: Literal["cm", "px"]
    either: int | float
    weights: dict[str, float]
    words: list[str]
    anything: Any
    method: Method = field(default_factory=Method)


numbers = st.floats(allow_nan=False)
points = st.builds(Point, numbers, st.none() | numbers)
drawings = st.builds(
    Drawing,
    name=st.text(),
    n=st.integers(),
    is_done=st.booleans(),
    points=st.lists(points, max_size=3).map(tuple),
    size=st.tuples(st.integers(), numbers),
    origin=st.none() | points,
    color=st.sampled_from(Color),
    unit=st.sampled_from(["cm", "px"]),
    either=st.integers() | numbers,
    weights=st.dictionaries(st.text(), numbers, max_size=3),
    words=st.lists(st.text(), max_size=3),
    anything=st.none() | st.lists(st.integers()) | st.dictionaries(st.text(), st.booleans()),
    method=st.builds(Method) | st.builds(FixMatch, threshold=st.floats(0, 1)),
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
EXAMPLE = Drawing("a", 1, True, (Point(1.0),), (1, 2.0), None, Color.RED, "cm", 1, {"w": 1.0}, ["a"], None)


def as_json(drawing: Drawing) -> Any:
    return json.loads(json.dumps(to_json(drawing)))


def decoded_or_refused(content: Any) -> tuple[Drawing | None, str]:
    try:
        return decode(Drawing, content, source="file", choose=CHOOSE), ""
    except InputError as refusal:
        return None, str(refusal)


@given(drawings)
def test_a_dataclass_comes_back_from_its_json(drawing: Drawing) -> None:
    found = decode(Drawing, as_json(drawing), source="file", choose=CHOOSE)
    assert found == drawing
    assert type(found.method) is type(drawing.method)
    assert type(found.either) is type(drawing.either)


@given(drawings, st.sampled_from([f.name for f in dataclasses.fields(Drawing)]), anything)
def test_any_other_value_is_decoded_to_the_fields_type_or_refused_in_one_line(
    drawing: Drawing, name: str, value: Any
) -> None:
    content = as_json(drawing) | {name: value}
    found, refusal = decoded_or_refused(content)
    if found is None:
        assert refusal.startswith("file: ")
        assert name in refusal
        assert "\n" not in refusal
    else:
        assert decode(Drawing, as_json(found), source="again", choose=CHOOSE) == found or "nan" in repr(found)


@given(anything)
def test_what_is_no_object_of_this_kind_is_refused(content: Any) -> None:
    with pytest.raises(InputError, match=r"^file: "):
        decode(Drawing, content, source="file")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"points": [{"x": 1.0}, {"x": "far"}]}, r"points\[1\].x is 'far', not a number"),
        ({"points": [{}]}, r"points\[0\]: 'x' is missing; a point has x, y"),
        ({"points": [{"x": 1, "z": 2}]}, r"points\[0\]: unknown entry 'z'; a point has x, y"),
        ({"points": [5]}, r"points\[0\] must be an object with the fields x, y"),
        ({"points": {}}, "points is {}, not a list"),
        ({"size": [1]}, "size has 1 entries; it must have 2"),
        ({"color": "green"}, "color is 'green', not 'red' or 'blue'"),
        ({"unit": "inch"}, "unit is 'inch', not 'cm' or 'px'"),
        ({"n": True}, "n is True, not a whole number"),
        ({"n": 1.0}, "n is 1.0, not a whole number"),
        ({"is_done": 1}, "is_done is 1, not true or false"),
        ({"origin": 3}, "origin is 3, not an object or none"),
        ({"weights": {"w": None}}, "weights.w is None, not a number"),
        ({"method": {"name": "none"}}, "method: unknown method 'none'; choose one of plain, fixmatch"),
        ({"method": {"name": "fixmatch", "threshold": 2}}, "method: method.threshold = 2.0; it must lie"),
        ({"weights": {"w": 10**400}}, "weights.w is 1"),
    ],
)
def test_a_refusal_says_where_the_fault_is_and_what_would_be_accepted(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        decode(Drawing, as_json(EXAMPLE) | change, source="file", choose=CHOOSE)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite_are_refused_where_asked(number: float) -> None:
    assert str(decode(Point, {"x": number}, source="file").x) == str(number)
    with pytest.raises(InputError, match=r"x is (nan|inf|-inf), not a number"):
        decode(Point, {"x": number}, source="file", finite=True)


@dataclass(frozen=True)
class Plan:
    steps: int = 5
    method: Method = field(default_factory=Method)
    point: Point = field(default_factory=lambda: Point(0.0))


def test_a_section_of_settings_is_what_its_content_says() -> None:
    plan = Plan(method=FixMatch(threshold=0.5))
    assert from_json(Plan(), as_json_of(plan), source="file", choose=CHOOSE) == plan
    assert from_json(Plan(steps=9), {}, source="file", choose=CHOOSE) == Plan(steps=9)


def test_a_setting_of_the_chosen_method_can_be_put_in_by_its_name() -> None:
    plan = Plan(method=FixMatch())
    assert override(plan, ["method.threshold=0.9"], choose=CHOOSE).method == FixMatch(threshold=0.9)
    both = ["method.threshold=0.9", "method.name=fixmatch"]
    assert override(Plan(), both, choose=CHOOSE).method == FixMatch(threshold=0.9)
    assert override(plan, ["method.name=plain"], choose=CHOOSE).method == Method()
    with pytest.raises(InputError, match="unknown field 'threshold'; choose one of name"):
        override(Plan(), ["method.threshold=0.9"], choose=CHOOSE)


def test_a_setting_that_the_command_sets_itself_is_refused_with_the_option_to_use() -> None:
    fixed = {"point.x": "--x", "method": "--method", "steps": "--steps"}
    assert override(Plan(), ["point.y=2"], fixed=fixed).point == Point(0.0, 2.0)
    for text, instead in [("point.x=1", "--x"), ("method.name=plain", "--method"), ("steps=3", "--steps")]:
        with pytest.raises(InputError, match=f"cannot be set this way; use {instead}"):
            override(Plan(), [text], fixed=fixed)


def as_json_of(plan: Plan) -> Any:
    return json.loads(json.dumps(to_json(plan)))


@dataclass(frozen=True)
class Grown:
    """Settings with two fields that were added later."""

    steps: int = 5
    soft: bool = False
    warmth: float = later_setting(2.0, before=1.0)


@dataclass(frozen=True)
class GrownPlan:
    section: Grown = field(default_factory=Grown)
    warmth: float = later_setting(2.0, before=1.0)


def test_fields_that_a_file_lacks_have_what_stood_for_them_before() -> None:
    assert GrownPlan().warmth == GrownPlan().section.warmth == 2.0
    older, newer = {"section": {"steps": 7}}, to_json(GrownPlan())
    expected = GrownPlan(Grown(steps=7, soft=False, warmth=1.0), warmth=1.0)
    assert decode(GrownPlan, older, source="file") == expected
    assert from_json(GrownPlan(), older, source="file") == expected
    assert from_json(GrownPlan(), newer, source="file") == GrownPlan()
