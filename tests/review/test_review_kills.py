"""A review that is killed again and again while somebody answers: nothing that was acknowledged is lost."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

import httpx
import pytest
from references_review import make_photos

from laplacenet.review.journal import read_journal
from laplacenet.runtime.run_folder import ANSWERS

SERVER = """
import sys
from pathlib import Path
from references_review import color_embedder
from laplacenet.review.opening import Source
from laplacenet.review.serve import Place, open_review
with open_review(Source(Path(sys.argv[1]), Path(sys.argv[2])), color_embedder, Place(opens_browser=False)) as review:
    print(review.address, flush=True)
    review.serve()
"""


def started(folder):
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(sys.path))
    command = [sys.executable, "-c", SERVER, str(folder / "photos"), str(folder / "run")]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found, "the server did not start"
    return process, found[0]


def answer_until_it_dies(address, acknowledged, rng):
    """One answer after another; gives those that were acknowledged."""
    origin = address.split("/?", maxsplit=1)[0]
    with httpx.Client(base_url=origin, headers={"origin": origin}, timeout=20) as client:
        try:
            client.get(address, follow_redirects=True)
            while True:
                body = {"answer": "label", "name": f"class {rng.randrange(4)}", "pictures": [rng.randrange(40)]}
                response = client.post("/api/answer", json={"by": "tab", "via": "queue", "seen": 0} | body)
                if response.status_code == 200:
                    acknowledged.append((response.json()["n"], body["pictures"][0]))
        except httpx.TransportError:
            return


@pytest.mark.long
def test_no_acknowledged_answer_is_lost_by_20_kills(tmp_path):
    make_photos(tmp_path / "photos", 40, side=24)
    rng, acknowledged, addresses = random.Random(0), [], set()
    for _ in range(20):
        process, address = started(tmp_path)
        addresses.add(address)
        answering = threading.Thread(target=answer_until_it_dies, args=(address, acknowledged, rng))
        answering.start()
        time.sleep(rng.uniform(0.05, 1.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        answering.join()
        entries, notes, _ = read_journal(tmp_path / "run" / ANSWERS)
        pictures = {entry.n: entry.content.get("pictures") for entry in entries}
        assert all(pictures.get(n) == [f"photo_{number:03d}.png"] for n, number in acknowledged), notes
        assert all("cut short" in note for note in notes)
    assert len(acknowledged) > 20
    assert len(addresses) == 1, "an open page finds the program again"
