"""The readers under a fuzzer that follows coverage: libFuzzer's, by atheris, where it is installed (Linux, CPython)."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from references_reliability import go
from references_runs import write_bars

pytestmark = pytest.mark.long

N_RUNS = int(os.environ.get("LAPLACENET_FUZZ_EXAMPLES", "10000"))
HARNESS = """
import sys, atheris
from pathlib import Path
with atheris.instrument_imports(include=["laplacenet"]):
    from laplacenet.experiments import Experiment, from_json, override, read_epochs, read_experiment, read_outcome
    from laplacenet.models import load_model
    from laplacenet.runtime import InputError, RunFolder
    from laplacenet.runtime.files import parse_json
    from laplacenet.training.checkpoint import checkpoint_step
name, folder = sys.argv[1], RunFolder(Path(sys.argv[2]))
readers = {
    "experiment.json": lambda: read_experiment(folder),
    "final.json": lambda: read_outcome(folder),
    "epochs.jsonl": lambda: read_epochs(folder),
    "model.json": lambda: load_model(folder.path),
    "checkpoint/manifest.json": lambda: checkpoint_step(folder.checkpoint),
}
def one(content):
    try:
        if name == "--set":
            override(Experiment(), content.decode(errors="replace").split("\\n"))
        else:
            (folder.path / name).write_bytes(content)
            readers[name]()
    except InputError as error:
        assert "\\n" not in str(error)
atheris.Setup([sys.argv[0], *sys.argv[3:]], one)
atheris.Fuzz()
"""


@pytest.mark.parametrize(
    "name", ["experiment.json", "final.json", "epochs.jsonl", "model.json", "checkpoint/manifest.json", "--set"]
)
def test_a_reader_under_atheris_reads_or_refuses(name: str, tmp_path: Path, reliability_record) -> None:
    pytest.importorskip("atheris", reason="pip install atheris")
    folder = go(write_bars(tmp_path / "bars.npz"), tmp_path / "run")
    if name == "epochs.jsonl":
        (folder.path / "final.json").unlink()  # which holds the checksum of the epochs
    seeds, harness = tmp_path / "seeds", tmp_path / "harness.py"
    seeds.mkdir()
    good = b"train.steps=5\ngraph.k=3" if name == "--set" else (folder.path / name).read_bytes()
    (seeds / "good").write_bytes(good)
    harness.write_text(HARNESS)
    options = [f"-runs={N_RUNS}", "-timeout=5", "-seed=1", "-max_len=20000", str(seeds)]
    done = subprocess.run(
        [sys.executable, str(harness), name, str(folder.path), *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ran = re.search(r"Done (\d+) runs", done.stderr)
    assert ran is not None
    reliability_record(f"atheris: {name}", examples=int(ran[1]), seed=1)
