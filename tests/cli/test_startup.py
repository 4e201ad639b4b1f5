"""What a command waits for before it begins."""

import subprocess
import sys


def test_training_does_not_wait_for_libraries_that_it_does_not_need() -> None:
    code = "import sys, laplacenet.cli.training\n"
    code += "print(sorted({'sklearn', 'matplotlib', 'scipy.stats'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
