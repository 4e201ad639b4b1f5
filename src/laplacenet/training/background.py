"""Work that is done beside the steps: one piece at a time, in a thread."""

import threading
from collections.abc import Callable


class BackgroundWork:
    """What goes wrong in the thread is raised, as it is, by the next `wait`."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._work: Callable[[], None] | None = None
        self._error: BaseException | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Begin it once the piece before has ended."""
        self.wait()
        self._work = work
        # not a daemon: Python itself waits for it before it ends
        self._thread = threading.Thread(target=self._do, name="background work")
        self._thread.start()

    def wait(self) -> None:
        """Until nothing is under way."""
        self.join()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def join(self) -> None:
        """As `wait`, but an error stays where it is. A second Ctrl-C comes through only when the work has ended."""
        thread = self._thread
        if thread is None:
            return
        try:
            thread.join()
        except BaseException:
            thread.join()
            raise
        # Pinned memory is freed here and not in the thread, where CUDA might refuse it during a capture.
        self._thread = self._work = None

    def _do(self) -> None:
        assert self._work is not None
        try:
            self._work()
        except BaseException as error:
            self._error = error
