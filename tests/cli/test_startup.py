"""What a command waits for before it begins and when it ends."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("command", ["training", "reproduction"])
def test_a_command_does_not_wait_for_libraries_that_it_does_not_need(command: str) -> None:
    code = f"import sys, laplacenet.cli.{command}\n"
    code += "print(sorted({'sklearn', 'matplotlib', 'scipy.stats', 'scipy.optimize'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


AT_WORK = """
import sys, threading, time, torch
import laplacenet.__main__ as program, laplacenet.cli as cli

def work():
    while True:
        torch.linalg.qr(torch.ones(300, 300))

def main():
    threading.Thread(target=work, daemon=True).start()
    time.sleep(0.2)
    print("said")
    sys.exit(3)

cli.main = main
program.run()
"""


def test_a_thread_at_work_in_the_background_does_not_abort_the_program() -> None:
    """The layout of a review's map, say: torch would end the process with SIGABRT."""
    done = subprocess.run([sys.executable, "-c", AT_WORK], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "said\n", "")
