"""The review's threads at the priority of the tests."""

import pytest


@pytest.fixture(autouse=True)
def threads_that_need_not_wait_for_other_tests(monkeypatch):
    """They work behind whoever asks, so tests that wait for them would wait for all that runs beside these tests."""
    monkeypatch.setattr("laplacenet.review.embedding.NICENESS", 0)
