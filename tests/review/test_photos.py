"""The pictures that the page shows."""

import threading

from references_review import make_photos

from laplacenet.review import photos
from laplacenet.review.photos import Thumbnails, find_photos


def test_a_picture_that_two_threads_read_at_once_is_counted_once(tmp_path, monkeypatch):
    make_photos(tmp_path, 2)
    found, decode = find_photos(tmp_path), photos.decode_within
    sizes = [len(Thumbnails(found).jpeg(number, "small")) for number in range(2)]
    monkeypatch.setattr(photos, "CACHE_BYTES", sum(sizes))
    both, decoded = threading.Barrier(2, timeout=60), []

    def decode_together(path, *, longest):
        both.wait()
        return decode(path, longest=longest)

    def decode_noted(path, *, longest):
        decoded.append(path.name)
        return decode(path, longest=longest)

    thumbnails = Thumbnails(found)
    monkeypatch.setattr(photos, "decode_within", decode_together)
    threads = [threading.Thread(target=thumbnails.jpeg, args=(0, "small")) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monkeypatch.setattr(photos, "decode_within", decode_noted)
    for number in (1, 0):
        thumbnails.jpeg(number, "small")
    assert decoded == ["photo_001.png"], "both pictures fit, so the first is still there"
