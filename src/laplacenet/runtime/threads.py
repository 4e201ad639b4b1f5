"""Long lists of small operations, divided among threads.

Torch splits every single operation among its threads and waits for the last of them, so operations of microseconds gain
little, and on a busy machine lose. Pieces that each thread works through alone wait for one another only once.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def by_pieces(work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> list[Result]:
    """What `work` makes of each piece, in their order, in as many threads as torch may use here; a piece has one."""
    n_threads = torch.get_num_threads()
    if n_threads == 1 or not pieces:
        return [work(piece) for piece in pieces]
    is_grad_enabled = torch.is_grad_enabled()

    def work_alone(piece: Piece) -> Result:
        with torch.set_grad_enabled(is_grad_enabled):  # a thread begins with torch's defaults
            return work(piece)

    try:
        with ThreadPoolExecutor(min(n_threads, len(pieces)), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(work_alone, pieces))
    finally:
        torch.set_num_threads(n_threads)  # the last number set anywhere is what later threads begin with
