"""The command line: one file a command, text out, exit codes that scripts can rely on."""

from laplacenet.cli.app import main

__all__ = ["main"]
