"""`laplacenet methods`: what --method accepts."""

import typer


def methods() -> None:
    """List the training methods: each name, what it does, and where it comes from.

    \b
    Examples:
      laplacenet methods
      laplacenet train digits --method fixmatch
    """
    from laplacenet.training import METHODS

    width = max(map(len, METHODS))
    for name, method in METHODS.items():
        typer.echo(f"{name:{width}}  {method.summary} ({method.source})")
