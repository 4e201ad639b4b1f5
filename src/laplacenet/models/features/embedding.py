"""Picture files → vectors, in one streaming pass.

On a CPU each thread decodes a few pictures and embeds them, so that decoding and arithmetic overlap without a queue. On
a GPU the threads only decode. At most `BYTES_AHEAD` of decoded pictures are in memory. Vectors are saved in the cache
every few hundred pictures, so that an interrupted run goes on where it stopped.
"""

import contextlib
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float32, UInt8
from torch import Tensor

from laplacenet.data.decoding import decode
from laplacenet.data.files import reason_of
from laplacenet.models.features.cache import VectorCache, picture_key
from laplacenet.models.features.network import FeatureNetwork
from laplacenet.models.features.vector_rows import VectorRows
from laplacenet.runtime import InputError, Monitor, NullMonitor

BYTES_AHEAD = 1 << 28
PICTURES_PER_SAVE = 512

Decoder = Callable[[int, int], UInt8[Tensor, "3 h w"]]
"""The picture at a position, at so many pixels a side."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """A row for each picture that could be read, which of the paths they are, and why the others could not.

    `n_cached` of the rows came from the cache.
    """

    vectors: Float32[Tensor, "n d"]
    kept: tuple[int, ...]
    failures: dict[int, str]
    n_cached: int


@dataclass(frozen=True, eq=False)
class _Batch:
    """Pictures that a thread has decoded; on a CPU with their vectors."""

    positions: list[int]
    failures: dict[int, str]
    pictures: UInt8[Tensor, "n 3 h w"] | None = None
    vectors: Float32[Tensor, "n d"] | None = None


def embed_pictures(
    paths: Sequence[Path],
    features: FeatureNetwork,
    *,
    cache: Path | None = None,
    monitor: Monitor | None = None,
    decode_file: Decoder | None = None,
) -> Embeddings:
    """The vectors of these picture files; those in the cache are not computed again.

    The monitor advances by one for each file. When it asks to stop, what is done is saved and KeyboardInterrupt raised.
    `decode_file` replaces the reading of files: it returns the picture at a position.
    """
    monitor = monitor or NullMonitor()
    keys = [picture_key(path) for path in paths] if cache is not None else [None] * len(paths)
    store = None if cache is None else VectorCache(cache, features)
    rows = VectorRows(len(paths), features.n_features, folder=cache)
    for positions, vectors in [] if store is None else store.tables(keys):
        rows.put(positions, vectors)
    n_cached, failures = int(rows.is_filled.sum()), dict[int, str]()
    monitor.advance(n_cached)
    missing = (~rows.is_filled).nonzero().flatten().tolist()
    is_over = threading.Event()
    decode_file = decode_file or from_files(paths, is_over)
    # closed at once when something is raised: a traceback would keep the threads of the stream running
    with _saving(store, keys) as save, contextlib.closing(_stream(decode_file, missing, features, is_over)) as batches:
        for batch in batches:
            failures |= batch.failures
            if batch.vectors is not None:
                found = batch.vectors.float().cpu()
                rows.put(batch.positions, found)
                save(batch.positions, found)
            monitor.advance(len(batch.positions) + len(batch.failures))
            if monitor.should_stop:
                raise KeyboardInterrupt
    kept = tuple(rows.is_filled.nonzero().flatten().tolist())
    return Embeddings(rows.compact(), kept, failures, n_cached)


@contextlib.contextmanager
def _saving(
    store: VectorCache | None, keys: Sequence[bytes | None]
) -> Generator[Callable[[list[int], Float32[Tensor, "n d"]], None], None, None]:
    """Gives a function that puts vectors into the cache, every few hundred pictures and at the end."""
    waiting: list[tuple[bytes, Tensor]] = []

    def write() -> None:
        if store is not None and waiting:
            store.add([key for key, _ in waiting], torch.stack([row for _, row in waiting]))
        waiting.clear()

    def save(positions: list[int], vectors: Float32[Tensor, "n d"]) -> None:
        waiting.extend(
            (key, row) for position, row in zip(positions, vectors, strict=True) if (key := keys[position]) is not None
        )
        if len(waiting) >= PICTURES_PER_SAVE:
            write()

    try:
        yield save
    finally:
        write()


def from_files(paths: Sequence[Path], is_over: threading.Event) -> Decoder:
    def decode_file(position: int, pixels: int) -> UInt8[Tensor, "3 h w"]:
        return torch.from_numpy(decode(paths[position], size=pixels, should_stop=is_over.is_set)).permute(2, 0, 1)

    return decode_file


def _stream(
    decode_file: Decoder, positions: Sequence[int], features: FeatureNetwork, is_over: threading.Event
) -> Generator[_Batch, None, None]:
    """The pictures at these positions, in batches and in order, a bounded number of batches ahead of the reader.

    `is_over` is set when no more are wanted, so that the threads, which are waited for, need not finish their batches.
    """
    size = features.batch_size
    batches = [list(positions[start : start + size]) for start in range(0, len(positions), size)]
    is_on_cpu = features.device.type == "cpu"
    n_torch, n_threads = torch.get_num_threads(), torch.get_num_threads() if is_on_cpu else os.cpu_count() or 1
    n_ahead = max(1, min(4 * n_threads, BYTES_AHEAD // (size * 3 * features.pixels**2)))
    waiting: deque[Future[_Batch]] = deque()

    def work(batch: list[int]) -> _Batch:
        decoded = _decode_batch(decode_file, batch, features.pixels, is_over)
        return _embed_batch(decoded, features) if is_on_cpu else decoded

    pool = ThreadPoolExecutor(min(n_threads, n_ahead), initializer=torch.set_num_threads, initargs=(1,))
    try:
        # Pillow's warnings about odd metadata are of no use to the reader
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for batch in batches:
                waiting.append(pool.submit(work, batch))
                if len(waiting) >= n_ahead:
                    yield _embed_batch(waiting.popleft().result(), features)
            while waiting:
                yield _embed_batch(waiting.popleft().result(), features)
    finally:
        is_over.set()
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(n_torch)  # the last number set anywhere is what later threads begin with


def _decode_batch(decode_file: Decoder, positions: list[int], pixels: int, is_over: threading.Event) -> _Batch:
    pictures, kept, failures = [], [], {}
    for position in positions:
        if is_over.is_set():
            raise KeyboardInterrupt
        try:
            pictures.append(decode_file(position, pixels))
            kept.append(position)
        except InputError:  # of the file in which pictures were prepared
            raise
        except Exception as error:  # decoders of damaged files fail in many ways; each is the file's fault
            failures[position] = reason_of(error)
    return _Batch(kept, failures, pictures=torch.stack(pictures) if pictures else None)


def _embed_batch(batch: _Batch, features: FeatureNetwork) -> _Batch:
    if batch.pictures is None:
        return batch
    return _Batch(batch.positions, batch.failures, vectors=features.embed(batch.pictures))
