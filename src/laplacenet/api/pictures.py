"""Pictures as vectors, and pictures in the browser."""

import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from laplacenet.api.checks import PathLike, as_path, label_files, require_exists
from laplacenet.runtime.errors import InputError

if TYPE_CHECKING:
    from laplacenet.data import Collection
    from laplacenet.review.opening import Source
    from laplacenet.review.pretrained import PretrainedEmbedder
    from laplacenet.review.serve import Review
    from laplacenet.runtime import Monitor


def embed(
    pictures: PathLike,
    *,
    features: str = "lite0",
    weights: PathLike | None = None,
    cache: bool = True,
    device: str = "auto",
    monitor: "Monitor | None" = None,
) -> "Collection":
    """Vectors of a folder's pictures by a pretrained network, with their paths and the labels of its sub-folders.

    `.rows.vectors` has a row for each of `.names`; `.labels` is −1 where no sub-folder names a class.
    """
    folder = as_path(pictures, name="pictures")
    require_exists(folder, what="pictures")
    if not folder.is_dir():
        raise InputError(f"{folder}: not a folder of pictures")
    from laplacenet.models.features import load_features
    from laplacenet.models.features.cache import cache_folder
    from laplacenet.models.features.folder import FolderReading, embed_folder
    from laplacenet.runtime import choose_device

    file = None if weights is None else as_path(weights, name="weights")
    network = load_features(features, weights=file, device=choose_device(device))
    reading = FolderReading(cache=cache_folder() if cache else None)
    return embed_folder(folder, network, reading, monitor=monitor)


def review(
    photos: PathLike,
    *,
    labels: PathLike | Sequence[PathLike] | None = None,
    out: PathLike | None = None,
    features: str | None = None,
    weights: PathLike | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    public: bool = False,
    browser: bool = True,
    device: str = "auto",
) -> "Review":
    """Label photos in the browser. `photos` is a folder of pictures, or the run folder of an earlier review.

    Serves until Ctrl-C, then writes labels.csv, the report and the model into the run folder. In a notebook it returns
    at once; the object shows the address, and its `stop` ends the review. `browser` opens the page. `public` lets other
    machines connect to `host`, unencrypted.
    """
    photos = as_path(photos, name="photos")
    require_exists(photos, what="a folder of pictures")
    from laplacenet.review.opening import Source
    from laplacenet.review.serve import Place, open_review

    source = Source(photos, None if out is None else as_path(out, name="out"), label_files(labels))
    is_notebook = "ipykernel" in sys.modules
    place = Place(host, port, opens_browser=browser and not is_notebook, is_public=public)
    with contextlib.ExitStack() as stack:
        found: Review = stack.enter_context(open_review(source, embedder_of(source, features, weights, device), place))
        print(found.address)
        if is_notebook:
            found.closing = stack.pop_all()
            return found.start()
        found.open_browser()
        found.serve()
        with contextlib.suppress(InputError):  # nothing was labeled: nothing is written
            found.write()
        return found


def embedder_of(source: "Source", features: str | None, weights: PathLike | None, device: str) -> "PretrainedEmbedder":
    """The given pretrained network, or that of the run."""
    from laplacenet.review.opening import features_of
    from laplacenet.review.pretrained import PretrainedEmbedder
    from laplacenet.runtime import choose_device

    name, file = features_of(source, features, None if weights is None else as_path(weights, name="weights"))
    return PretrainedEmbedder(name, weights=file, device=choose_device(device))
