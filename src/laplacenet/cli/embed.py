"""`laplacenet embed`: pictures through a pretrained network, one vector each."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from laplacenet.cli.options import Device, existing
from laplacenet.cli.out_files import OverwriteFile, require_free, write_out
from laplacenet.cli.output import say

if TYPE_CHECKING:
    from laplacenet.data import Collection


def embed(
    pictures: Annotated[Path, typer.Argument(callback=existing, help="A folder of pictures.")],
    out: Annotated[Path, typer.Option(help="The .npz file to write.")],
    features: Annotated[
        str, typer.Option(help="The pretrained network: lite0, lite1, lite2, timm:NAME or FILE.onnx.")
    ] = "lite0",
    weights: Annotated[Path | None, typer.Option(help="A file of weights in place of the network's own.")] = None,
    cache: Annotated[bool, typer.Option(help="Use the cache of vectors, and add new ones to it.")] = True,
    overwrite: OverwriteFile = False,
    device: Device = "auto",
) -> None:
    """Turn pictures into vectors with a pretrained network: arrays `embeddings` and `paths` in one .npz file.

    `laplacenet label` and scikit-learn read it. If sub-folders name classes, it also holds `labels` and `class_names`.
    A picture is embedded once: its vector is kept in the folder LAPLACENET_CACHE, or else in the user's cache folder,
    until the file changes. An interrupted command continues where it stopped. Under torchrun each process embeds a part
    of the pictures, and the first one writes the file.

    \b
    Examples:
      laplacenet embed photos/ --out photos.npz
      laplacenet embed photos/ --features timm:vit_small_patch14_dinov2 --out photos.npz
    """
    from laplacenet.cli.progress import counter
    from laplacenet.models.features import load_features
    from laplacenet.models.features.cache import cache_folder
    from laplacenet.models.features.folder import FolderReading, embed_folder, embed_share, picture_files
    from laplacenet.runtime import NullMonitor, choose_device, start_group
    from laplacenet.runtime.peers import advising

    require_free(out, suffixes=(".npz",), overwrite=overwrite)
    chosen_device = choose_device(device)
    group = start_group(chosen_device)  # before the pictures are looked for, which takes longer on some machines
    reading = FolderReading(cache=cache_folder() if cache else None)
    parts, _ = picture_files(pictures, reading)
    network = load_features(features, weights=weights, device=chosen_device)
    with advising(lambda: "the vectors so far are kept; go on with: the same command"):
        with counter(f"embedding {pictures.name}", n=len(parts.train)) as tally:
            embed_share(parts, network, reading, monitor=tally)
            others = NullMonitor() if group.size > 1 else tally  # they have been counted
            found = embed_folder(pictures, network, reading, monitor=others) if group.is_first else None
        group.by_first(lambda: write_vectors(found, out))
    if found is not None:
        say(f"{out}: {len(found)} pictures, {network.n_features} numbers each, by {network.name}")


def write_vectors(found: "Collection | None", out: Path) -> None:
    assert found is not None
    for file in found.skipped:
        say(f"warning: {file.path}: skipped ({file.reason})", err=True)
    write_out(out, npz_writer(found))


def npz_writer(found: "Collection") -> "Callable[[BinaryIO], None]":
    """Writes embeddings, paths and, where any label is known, labels and class names; a piece at a time."""
    import numpy as np

    from laplacenet.data import VectorSet

    assert isinstance(found.rows, VectorSet)
    arrays = {"embeddings": found.rows.vectors.numpy(), "paths": np.array(found.names)}
    if bool((found.labels >= 0).any()):
        arrays |= {"labels": found.labels.numpy(), "class_names": np.array(found.class_names)}

    def write(file: BinaryIO) -> None:
        np.savez(file, **arrays)  # type: ignore[arg-type] # numpy's stubs take the names for its own options

    return write
