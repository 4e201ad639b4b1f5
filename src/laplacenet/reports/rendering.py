"""Templates into text: HTML is escaped by the engine, and what a page was not given is an error."""

import re
from collections.abc import Callable

import jinja2


def template(name: str, **filters: Callable[..., str]) -> jinja2.Template:
    """The template of this name; where it is not HTML, its filters escape."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("laplacenet.reports"),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment.get_template(name)


def plain_cell(text: object) -> str:
    """A text inside a Markdown table: no line break, bar or tag of its own."""
    flat = " ".join(str(text).split())
    for sign in "\\`*_[]|":
        flat = flat.replace(sign, "\\" + sign)
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def keep_together(text: str) -> str:
    """Numbers stay with their units and signs at a line's end."""
    return re.sub(r"(?<=\d) (?=\d{3}\b|steps|±|%)|(?<=±) | (?==)|(?<==) ", "\u00a0", text)
