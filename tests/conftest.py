"""Shapes in signatures are checked while the tests run on a CPU (and cost nothing in use)."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as N_THREADS below; read when NumPy and SciPy are imported

import pytest
import torch
from hypothesis import HealthCheck, settings
from references_kernels import interpret_kernels
from references_shapes import calls, check_shapes

if not torch.cuda.is_available():  # Triton reads the source of its kernels, which the hook would wrap
    check_shapes()
    interpret_kernels()

N_THREADS = 1  # the tests' tensors are small: waking a second thread costs more than it gives
torch.set_num_threads(N_THREADS)

pytest_plugins = ["references_record", "references_interpreter"]

FUZZ_EXAMPLES = int(os.environ.get("LAPLACENET_FUZZ_EXAMPLES", "100"))

settings.register_profile(
    "default",
    max_examples=FUZZ_EXAMPLES,
    derandomize=FUZZ_EXAMPLES <= 100,  # the usual tests are the same every time; who asks for more, hunts anew
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """GPU tests are only collected where there is a GPU."""
    if torch.cuda.is_available():
        return
    items[:] = [item for item in items if "gpu" not in item.keywords]


@pytest.fixture(autouse=True)
def same_state_of_torch_in_any_order() -> None:
    """Its generator and number of threads would be what the tests before have left."""
    torch.manual_seed(0)
    torch.set_num_threads(N_THREADS)


@pytest.fixture(autouse=True)
def shapes_are_checked_anew() -> None:
    """In the first calls of each test."""
    calls.clear()


@pytest.fixture(autouse=True)
def no_pretrained_network_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """`--features auto` trains, as if no weights were installed: most tests are about training."""
    monkeypatch.setenv("LAPLACENET_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setattr("laplacenet.labeling.choices.installed_lite", tuple)
