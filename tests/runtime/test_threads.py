"""Pieces of work shared among threads."""

import threading

import pytest
import torch

from laplacenet.runtime.threads import by_pieces


@pytest.fixture(params=[1, 3])
def n_threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_pieces(n_threads):
    assert by_pieces(lambda piece: piece * piece, range(20)) == [piece * piece for piece in range(20)]
    assert by_pieces(lambda piece: piece, []) == []


def test_each_piece_is_worked_through_by_one_thread_of_torch(n_threads):
    together = threading.Barrier(n_threads, timeout=30)

    def work(_):
        together.wait()  # passes only if so many pieces are under way at once
        return torch.get_num_threads(), threading.get_ident()

    found = by_pieces(work, range(n_threads))
    assert {n for n, _ in found} == {1}
    assert len({thread for _, thread in found}) == n_threads
    assert by_pieces(lambda _: torch.get_num_threads(), ["alone"]) == [1]


def test_torch_has_as_many_threads_afterwards_as_before(n_threads):
    by_pieces(lambda piece: piece, range(4))
    assert torch.get_num_threads() == n_threads
    later = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [n_threads]


def test_gradients_are_recorded_or_not_as_around_the_call(n_threads):
    weight = torch.ones(1, requires_grad=True)
    with torch.no_grad():
        assert not any(product.requires_grad for product in by_pieces(lambda piece: weight * piece, range(4)))
    assert all(product.requires_grad for product in by_pieces(lambda piece: weight * piece, range(4)))


def test_an_error_in_a_piece_is_raised_here(n_threads):
    with pytest.raises(ZeroDivisionError):
        by_pieces(lambda piece: 1 // piece, [1, 0])
    assert torch.get_num_threads() == n_threads
