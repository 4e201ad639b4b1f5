"""`python -m laplacenet`, and the program `laplacenet`."""

import sys
import threading
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
        if ended.code not in INTERRUPTED and not leaves_daemons():
            raise
        from laplacenet.cli.app import end_at_once  # noqa: PLC0415

        end_at_once(int(ended.code or 0))


def leaves_daemons() -> bool:
    """Whether only daemon threads are left: if a function of torch returns in one of them while Python ends, torch
    aborts the process."""
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    return bool(others) and all(thread.daemon for thread in others)


if __name__ == "__main__":
    run()
