"""Embed all pictures in the background, in random order so that any part is an unbiased sample."""

import os
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.review.photos import Photo
from laplacenet.review.propagation import Embedded, join
from laplacenet.runtime import InputError, stream

FIRST_BATCH = 64
GROWTH = 2.0
"""The graph is rebuilt whenever the number of embeddings has grown by this factor, and at the end."""

NICENESS = 10

Embedder = Callable[[list[Path]], Iterable[Float[np.ndarray, " d"] | None]]
"""Turns picture files into vectors, in the order of the paths; None where one cannot be read."""


def work_behind() -> None:
    """Lower the priority of this thread and those it starts, so that answers are acknowledged first.

    Linux alone has a priority for each thread; elsewhere nothing is changed.
    """
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


class Embedding:
    """A thread that embeds, and what it has so far."""

    def __init__(self, photos: list[Photo], embedder: Embedder, *, seed: int) -> None:
        self.n_pictures = len(photos)
        self.n_done = 0
        self.is_readable = np.ones(len(photos), dtype=bool)
        self.error: str | None = None
        self.embedder = embedder
        self.is_finished = False
        """Whether the last graph holds all pictures, or no more will be added."""
        self._photos = photos
        self._order = stream(seed, "review/embedding").permutation(len(photos))
        self._vectors: list[Float[np.ndarray, " d"]] = []
        self._rows: list[int] = []
        self._is_closed = False
        self._thread: threading.Thread | None = None

    @property
    def is_done(self) -> bool:
        return self.n_done == self.n_pictures

    def start(self, on_graph: Callable[[Embedded], None], on_progress: Callable[[], None]) -> None:
        """Call `on_graph` from another thread each time there is a larger graph."""
        self._thread = threading.Thread(
            target=self._work, args=(on_graph, on_progress), name="review-embedding", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._is_closed = True
        if self._thread is not None:
            self._thread.join(timeout=30)

    def _work(self, on_graph: Callable[[Embedded], None], on_progress: Callable[[], None]) -> None:
        work_behind()
        try:
            self._embed_all(on_graph, on_progress)
        except Exception as error:  # said on the page; the answers given so far are safe in the journal
            self.error = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            on_progress()
        finally:
            self.is_finished = True

    def _embed_all(self, on_graph: Callable[[Embedded], None], on_progress: Callable[[], None]) -> None:
        paths = [self._photos[row].file.path for row in self._order]
        next_graph = FIRST_BATCH
        for row, vector in zip(self._order.tolist(), self.embedder(paths), strict=False):
            if self._is_closed:
                return
            if vector is None:
                self.is_readable[row] = False
            else:
                self._rows.append(row)
                self._vectors.append(vector)
            self.n_done += 1
            if self.n_done % 16 == 0 or self.is_done:
                on_progress()
            if self._rows and (self.is_done or len(self._rows) >= next_graph):
                next_graph = int(GROWTH * len(self._rows))
                on_graph(join(*self._so_far()))

    def _so_far(self) -> tuple[Int64[Tensor, " m"], Float[Tensor, "m d"]]:
        """In the order of the pictures' numbers."""
        rows = np.array(self._rows)
        order = np.argsort(rows)
        vectors = torch.from_numpy(np.stack(self._vectors))[torch.from_numpy(order)]
        return torch.from_numpy(rows[order]), vectors.float()
