"""`python -m laplacenet`, and the program `laplacenet`."""

import sys
from typing import NoReturn

INTERRUPTED = (130, 143)


def run() -> NoReturn:
    """The command line; after Ctrl-C the process ends at once, whatever its threads still do."""
    try:
        from laplacenet.cli import main  # noqa: PLC0415 - Ctrl-C may come while it is imported
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED[0])
    try:
        main()
    except SystemExit as ended:
        if ended.code not in INTERRUPTED:
            raise
        from laplacenet.cli.app import end_at_once  # noqa: PLC0415

        end_at_once(int(ended.code or 0))


if __name__ == "__main__":
    run()
