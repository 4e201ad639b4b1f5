"""Templates into text: HTML is escaped by the engine, and what a page was not given is an error."""

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
