"""Nothing that is read executes: no pickle, no eval, no loader that could, but the one reader that is restricted."""

import ast
import os
import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from references_reliability import go, result_or_refusal
from references_runs import write_bars

import laplacenet
from laplacenet.experiments import prepare, read_epochs, read_experiment, read_outcome
from laplacenet.models import load_model
from laplacenet.runtime import InputError, RunFolder
from laplacenet.training import load_checkpoint

SOURCE = Path(laplacenet.__file__).parent
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml", "code", "codeop"}
CALLS = {"eval", "exec", "compile", "__import__"}
LOADERS = {("torch", "load"), ("yaml", "load"), ("np", "load"), ("numpy", "load"), ("os", "system"), ("os", "popen")}
SAFE = {("allow_pickle", False), ("weights_only", True)}
RESTRICTED = {
    "data/pickles.py": {"pickle"},  # reads CIFAR's archives by an allow-list of names
    "models/features/lite_weights.py": {"pickle"},  # only the error that it raises
    "runtime/group.py": {"pickle"},  # between the processes of one run, as torch.distributed does; never from a file
}


def dangers(tree: ast.Module) -> Iterator[str]:
    """Modules that run what they read, builtins that run text, and loaders unless told not to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield str(node.module)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            yield node.func.id
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and (node.func.value.id, node.func.attr) in LOADERS
        ):
            is_told = any(
                isinstance(word.value, ast.Constant) and (word.arg, word.value.value) in SAFE for word in node.keywords
            )
            if not is_told:
                yield f"{node.func.value.id}.{node.func.attr}"


def test_no_source_file_can_execute_what_it_reads() -> None:
    found = {}
    for file in SOURCE.rglob("*.py"):
        name = str(file.relative_to(SOURCE))
        extra = set(dangers(ast.parse(file.read_text(encoding="utf-8")))) - RESTRICTED.get(name, set())
        if extra:
            found[name] = extra
    assert found == {}


def test_the_search_finds_what_it_looks_for() -> None:
    code = "import pickle\nfrom yaml import load\neval('1')\ntorch.load(x)\nnp.load(x)\nnp.load(x, allow_pickle=False)"
    assert list(dangers(ast.parse(code))) == ["pickle", "yaml", "eval", "torch.load", "np.load"]


class Trap:
    """Pickled, it makes a folder when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_trap_in_any_file_of_a_run_folder_does_not_spring(tmp_path: Path) -> None:
    data = write_bars(tmp_path / "bars.npz")
    folder = go(data, tmp_path / "run")
    sprung = tmp_path / "sprung"
    trap = pickle.dumps(Trap(sprung))
    for file in sorted(path for path in folder.path.rglob("*") if path.is_file()):
        good = file.read_bytes()
        file.write_bytes(trap)
        for read in (read_experiment, read_outcome, read_epochs, lambda f: load_model(f.path), resume):
            result_or_refusal(partial(read, folder))
        file.write_bytes(good)
    assert not sprung.exists()
    pickle.loads(trap)
    assert sprung.exists()


def resume(folder: RunFolder) -> None:
    task = prepare(read_experiment(folder))
    load_checkpoint(folder.checkpoint, task.network(), identity={})


def test_a_pipe_in_place_of_a_file_does_not_keep_its_reader_waiting(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    for name in ("experiment.json", "final.json", "epochs.jsonl", "model.json"):
        os.mkfifo(folder.path / name)
    folder.checkpoint.mkdir()
    os.mkfifo(folder.checkpoint / "manifest.json")
    for read in (read_experiment, read_outcome, read_epochs, lambda f: load_model(f.path)):
        with pytest.raises(InputError):
            read(folder)
