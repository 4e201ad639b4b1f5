"""Picture files become vectors in one pass, and are embedded once."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from laplacenet.data.decoding import decode
from laplacenet.models.features import FeatureNetwork, embedding
from laplacenet.models.features.cache import VectorCache, cache_folder
from laplacenet.models.features.embedding import embed_pictures
from laplacenet.runtime import InputError


def means(pictures: Tensor) -> Tensor:
    return pictures.mean(dim=(2, 3))


def tiny_network(fingerprint: str = "f" * 64, pixels: int = 8) -> FeatureNetwork:
    """The mean of each channel."""
    return FeatureNetwork(
        "tiny", 3, pixels, fingerprint, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), trunk=means, device=torch.device("cpu")
    )


class Counter:
    """Counts, and asks to stop after so many."""

    def __init__(self, stop_after: int = 10**9) -> None:
        self.n, self.stop_after = 0, stop_after

    @property
    def should_stop(self) -> bool:
        return self.n >= self.stop_after

    def advance(self, n: int) -> None:
        self.n += n


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    rng = np.random.default_rng(0)
    (tmp_path / "pictures").mkdir()
    found = [tmp_path / "pictures" / f"{i}.png" for i in range(11)]
    for path in found:
        Image.fromarray(rng.integers(0, 256, (10, 12, 3), dtype=np.uint8)).save(path)
    return found


def test_each_row_is_the_picture_of_its_path(paths: list[Path]) -> None:
    found = embed_pictures(paths, tiny_network())
    expected = [torch.from_numpy(decode(path, size=8)).float().mean(dim=(0, 1)) for path in paths]
    torch.testing.assert_close(found.vectors, torch.stack(expected))
    assert found.kept == tuple(range(11))
    assert found.n_cached == 0


def test_pictures_that_cannot_be_read_are_left_out_and_named(paths: list[Path]) -> None:
    paths[3].write_bytes(b"no picture")
    paths[10].unlink()
    counter = Counter()
    found = embed_pictures(paths, tiny_network(), monitor=counter)
    assert found.kept == (0, 1, 2, 4, 5, 6, 7, 8, 9)
    assert set(found.failures) == {3, 10}
    assert len(found.vectors) == 9
    assert counter.n == 11


def test_a_second_run_embeds_nothing(paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = embed_pictures(paths, tiny_network(), cache=tmp_path / "cache")
    monkeypatch.setattr("laplacenet.models.features.embedding.decode", None)
    counter = Counter()
    second = embed_pictures(paths, tiny_network(), cache=tmp_path / "cache", monitor=counter)
    assert torch.equal(first.vectors, second.vectors)
    assert second.n_cached == counter.n == 11


def test_only_a_changed_picture_is_embedded_again(paths: list[Path], tmp_path: Path) -> None:
    embed_pictures(paths, tiny_network(), cache=tmp_path / "cache")
    Image.new("RGB", (8, 8), (1, 2, 3)).save(paths[4])
    os.utime(paths[4], ns=(1, 1))
    found = embed_pictures(paths, tiny_network(), cache=tmp_path / "cache")
    assert found.n_cached == 10
    assert found.vectors[4].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("other", [tiny_network("e" * 64), tiny_network(pixels=9)])
def test_another_network_or_size_shares_nothing(paths: list[Path], tmp_path: Path, other: FeatureNetwork) -> None:
    embed_pictures(paths, tiny_network(), cache=tmp_path / "cache")
    assert embed_pictures(paths, other, cache=tmp_path / "cache").n_cached == 0


def test_an_interrupted_run_goes_on_where_it_stopped(paths: list[Path], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        embed_pictures(paths, tiny_network(), cache=tmp_path / "cache", monitor=Counter(stop_after=4))
    found = embed_pictures(paths, tiny_network(), cache=tmp_path / "cache")
    assert 4 <= found.n_cached < 11
    assert torch.equal(found.vectors, embed_pictures(paths, tiny_network()).vectors)


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-1], lambda content: content[:-1] + bytes([content[-1] ^ 1]), lambda _: b""]
)
def test_a_damaged_file_of_the_cache_is_left_out(paths: list[Path], tmp_path: Path, damage) -> None:
    embed_pictures(paths, tiny_network(), cache=tmp_path / "cache")
    for path in VectorCache(tmp_path / "cache", tiny_network()).folder.iterdir():
        path.write_bytes(damage(path.read_bytes()))
    found = embed_pictures(paths, tiny_network(), cache=tmp_path / "cache")
    assert found.n_cached == 0
    assert len(found.vectors) == 11


def test_a_cache_folder_that_cannot_be_made_is_named_with_the_variable_that_chooses_another(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = VectorCache(tmp_path / "file", tiny_network())
    with pytest.raises(InputError, match=r"cannot keep vectors there .* by LAPLACENET_CACHE"):
        cache.add([bytes(20)], torch.zeros(1, cache.n_features))


def test_two_processes_may_add_the_same_vectors_at_once(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, tiny_network())
    keys, vectors, n_times = [bytes(20)], torch.ones(1, 3), 20
    together = threading.Barrier(2)

    def add() -> None:
        for _ in range(n_times):
            together.wait(timeout=60)
            cache.add(keys, vectors)

    with ThreadPoolExecutor(2) as pool:
        for added in [pool.submit(add) for _ in range(2)]:
            added.result()
    assert [path.suffix for path in cache.folder.iterdir()] == [".vectors"]
    assert torch.equal(cache.find(keys)[0], vectors[0])


def test_no_picture_gives_no_row() -> None:
    assert embed_pictures([], tiny_network()).vectors.shape == (0, 3)


def test_threads_are_given_back(paths: list[Path]) -> None:
    before = torch.get_num_threads()
    embed_pictures(paths, tiny_network())
    assert torch.get_num_threads() == before


def test_the_variable_names_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAPLACENET_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("LAPLACENET_CACHE")
    assert cache_folder().name == "laplacenet"


def test_a_batch_under_way_is_not_finished_once_it_is_time_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    has_begun, is_ending = threading.Event(), threading.Event()
    decoded: list[int] = []
    network = tiny_network()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, *arguments: bool, **options: bool) -> None:
            is_ending.set()
            super().shutdown(*arguments, **options)

    class Stopping(Counter):
        @property
        def should_stop(self) -> bool:
            return self.n > 0 and has_begun.wait(20)

    def decode_file(position: int, pixels: int) -> Tensor:
        decoded.append(position)
        if position == network.batch_size:  # the first of the second batch
            has_begun.set()
            is_ending.wait(20)
        return torch.zeros(3, pixels, pixels, dtype=torch.uint8)

    monkeypatch.setattr(embedding, "ThreadPoolExecutor", Pool)
    paths = [Path(f"{i}.png") for i in range(2 * network.batch_size)]
    with pytest.raises(KeyboardInterrupt):
        embed_pictures(paths, network, monitor=Stopping(), decode_file=decode_file)
    assert decoded == list(range(network.batch_size + 1))


def test_no_thread_works_on_after_a_monitor_has_raised(paths: list[Path]) -> None:
    class Raising(Counter):
        def advance(self, n: int) -> None:
            if n:
                raise TimeoutError

    with pytest.raises(TimeoutError) as raised:
        embed_pictures(paths, tiny_network(), monitor=Raising())
    alive = [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]
    assert raised.tb is not None  # its frames are still there
    assert not alive
