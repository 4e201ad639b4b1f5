"""A folder of pictures labeled through a pretrained network, from the command's options to its run folder."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from references_lite import use_small_lite
from torch import nn

from laplacenet import api
from laplacenet.data import Collection
from laplacenet.data.walking import find_pictures
from laplacenet.graph.transform import RowTransform
from laplacenet.labeling import choices
from laplacenet.labeling.choices import sample_statistics
from laplacenet.labeling.estimate import suspect_labels
from laplacenet.labeling.feature_model import (
    FeatureModel,
    feature_network,
    holds_feature_model,
    load_feature_model,
    save_feature_model,
)
from laplacenet.labeling.features import features_of, label_features, pixels_for_time, read_feature_job
from laplacenet.labeling.job import read_job
from laplacenet.labeling.settings import CollectionConfig, LabelingSettings
from laplacenet.models.features import FeatureNetwork, installed_lite, load_features
from laplacenet.models.features.cache import cache_folder
from laplacenet.models.features.embedding import embed_pictures
from laplacenet.models.features.folder import embed_together
from laplacenet.runtime import InputError

COLORS = {"blue": (40, 60, 200), "green": (50, 190, 60), "red": (200, 40, 50)}


class Coarse(nn.Module):
    """Each channel at 2 by 2 pixels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.adaptive_avg_pool2d(x, 2).flatten(1)


def tiny_network(name: str, *, weights: Path | None = None, device: torch.device) -> FeatureNetwork:
    return FeatureNetwork(
        name, 12, 16, "f" * 64, (127.0,) * 3, (128.0,) * 3, trunk=Coarse(), device=device, module=Coarse()
    )


def write_picture(path: Path, color: tuple[int, int, int], rng: np.random.Generator) -> None:
    noise = rng.normal(0, 60, (40, 44, 3))
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((np.array(color) + noise).clip(0, 255).astype(np.uint8)).save(path)


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sixty pictures of noise about one of three colors, four of each in a sub-folder of its name."""
    monkeypatch.setenv("LAPLACENET_CACHE", str(tmp_path / "cache"))
    for module in ("features", "feature_model", "choices"):
        monkeypatch.setattr(f"laplacenet.labeling.{module}.load_features", tiny_network)
    rng = np.random.default_rng(0)
    for name, color in COLORS.items():
        for i in range(20):
            write_picture(tmp_path / "photos" / (name if i < 4 else "unlabeled") / f"{name}-{i}.png", color, rng)
    return tmp_path / "photos"


def test_a_folder_is_labeled_through_a_network(photos: Path, tmp_path: Path) -> None:
    run = api.label(photos, features="timm:tiny", out=tmp_path / "run", device="cpu")
    assert all(label == Path(path).name.split("-")[0] for path, label in zip(run.paths, run.labels, strict=True))
    assert run.is_complete
    assert run.estimate.n == 12
    assert run.estimate.accuracy is not None
    assert run.estimate.accuracy.value == 1.0
    assert not run.suspects()
    assert len(run.next(5)) == 5
    with (tmp_path / "run" / "labels.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 60
    assert "data:image" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_new_pictures_are_predicted_and_the_whole_is_exported(photos: Path, tmp_path: Path) -> None:
    from laplacenet.labeling.feature_model import feature_network
    from laplacenet.models.export import export_model

    run = api.label(photos, features="timm:tiny", out=tmp_path / "run", device="cpu")
    write_picture(tmp_path / "new" / "x.png", COLORS["green"], np.random.default_rng(1))
    found = run.predict(tmp_path / "new", device="cpu")
    assert [one.label for one in found] == ["green"]
    network, description = feature_network(run.path)
    assert export_model(network, description, tmp_path / "model.pt2", form="torch-export") < 1e-4
    assert (tmp_path / "model.pt2").is_file()


@pytest.mark.skipif("lite0" not in installed_lite(), reason="needs the extra: photos")
def test_a_pretrained_trunk_and_its_head_run_as_one_onnx_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from laplacenet.models.export import export_model

    features, rng = load_features("lite0", device=torch.device("cpu")), torch.Generator().manual_seed(0)
    weights, center = torch.randn(features.n_features, 3, generator=rng), torch.rand(features.n_features, generator=rng)
    transform = RowTransform(center, is_rooted=True)
    model = FeatureModel("lite0", None, features.fingerprint, transform, weights, torch.zeros(3), 0.5, ("a", "b", "c"))
    save_feature_model(tmp_path, model)
    network, description = feature_network(tmp_path)
    assert export_model(network, description, tmp_path / "model.onnx", form="onnx") < 1e-4
    pictures = torch.randint(0, 256, (2, 3, features.pixels, features.pixels), dtype=torch.uint8, generator=rng)
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    found = session.run(None, {session.get_inputs()[0].name: pictures.numpy()})[0]
    expected = model.probabilities(features.embed(pictures))
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-3, atol=1e-4)


def test_a_wrong_label_is_suspected_and_no_other() -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(600) % 3
    vectors = torch.from_numpy(4 * np.eye(3)[truth] @ rng.normal(size=(3, 8)) + rng.normal(size=(600, 8))).float()
    given = torch.from_numpy(np.where(np.arange(600) < 400, truth, -1))
    given[0] = 1
    names = ("a", "b", "c")
    found = label_features(vectors, given, LabelingSettings(), class_names=names, device=torch.device("cpu"))
    is_suspect = suspect_labels(found.findings.unseen, given, least_ratio=found.findings.suspect_ratio)
    assert torch.nonzero(is_suspect).flatten().tolist() == [0]


def test_another_network_of_the_same_name_is_refused(photos: Path, tmp_path: Path) -> None:
    run = api.label(photos, features="timm:tiny", out=tmp_path / "run", device="cpu")
    assert holds_feature_model(run.path)
    model = load_feature_model(run.path)
    with pytest.raises(InputError, match="weights differ"):
        type(model)(**{**vars(model), "fingerprint": "e" * 64}).network(torch.device("cpu"))
    (run.path / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(InputError, match="checksum differs"):
        load_feature_model(run.path)


def test_a_resumed_run_labels_what_is_there_now(photos: Path, tmp_path: Path) -> None:
    run = api.label(photos, features="timm:tiny", out=tmp_path / "run", device="cpu")
    write_picture(photos / "unlabeled" / "red-99.png", COLORS["red"], np.random.default_rng(1))
    assert len(api.label(resume=run.path, device="cpu").paths) == 61


def test_auto_takes_the_best_installed_network_for_photographs(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choices, "installed_lite", lambda: ("lite0", "lite2"))
    run = api.label(photos, out=tmp_path / "run", device="cpu")
    assert load_feature_model(run.path).features == "lite2"
    assert "look like photographs" in run.data.summary.choices[0]
    assert "look like photographs" in (run.path / "report.html").read_text(encoding="utf-8")


def test_pictures_unlike_photographs_are_judged_by_hidden_labels(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choices, "installed_lite", lambda: ("lite0",))
    monkeypatch.setattr(choices, "SMALLEST_PHOTO", 1000)
    settings = LabelingSettings(collection=CollectionConfig(str(photos), features="auto"))
    found = choices.choose_features(settings, device=torch.device("cpu"))
    assert (found.settings.collection.features, found.settings.beside) == ("lite0", "")
    assert "lite0 predicts 100 % of held-out labels" in found.why[0]
    monkeypatch.setattr(choices, "own_pixels", lambda job: job.collection.rows.vectors)
    shares = [0.9, 0.5]
    monkeypatch.setattr(choices, "share_predicted", lambda *_: shares.pop())
    found = choices.choose_features(settings, device=torch.device("cpu"))
    assert (found.settings.collection.features, found.settings.beside) == ("lite0", "scratch")
    assert "50 %" in found.why[0]


def test_photographs_are_told_from_drawings_and_grey_pictures(photos: Path, tmp_path: Path) -> None:
    assert sample_statistics(find_pictures(photos)[0]).are_photographs
    (tmp_path / "drawings").mkdir()
    Image.new("RGB", (64, 64), "red").save(tmp_path / "drawings" / "a.png")
    assert not sample_statistics(find_pictures(tmp_path / "drawings")[0]).are_photographs
    (tmp_path / "grey").mkdir()
    noise = np.random.default_rng(0).integers(0, 256, (64, 64), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "grey" / "a.png")
    assert not sample_statistics(find_pictures(tmp_path / "grey")[0]).are_photographs
    assert not sample_statistics([]).are_photographs


def test_features_need_a_folder_of_pictures(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", embeddings=np.eye(4, dtype=np.float32), labels=np.array([0, 1, -1, -1]))
    with pytest.raises(InputError, match="not a folder of pictures"):
        api.label(tmp_path / "x.npz", features="lite0", out=tmp_path / "run")


def test_a_test_folder_has_the_same_rows_with_features_as_from_scratch(photos: Path, tmp_path: Path) -> None:
    test, rng = tmp_path / "test", np.random.default_rng(1)
    for name in ("red/new.png", "red/other.png", "unlabeled/x.png"):
        write_picture(test / name, COLORS["red"], rng)
    (test / "red" / "given.png").symlink_to(photos / "red" / "red-0.png")
    (test / "red" / "broken.png").write_bytes(b"no picture")
    settings = LabelingSettings(collection=CollectionConfig(str(photos), test=str(test)))
    network = tiny_network("tiny", device=torch.device("cpu"))
    by_features, trained = read_feature_job(settings, network).judges, read_job(settings).judges
    assert by_features is not None
    assert trained is not None
    assert by_features.names == trained.names == ("red/new.png", "red/other.png")
    assert by_features.labels.tolist() == trained.labels.tolist() == [2, 2]
    assert by_features.notes == trained.notes
    assert len(by_features.notes) == 2  # one picture has no label, one is given


def test_a_test_folder_without_labels_is_refused_before_it_is_embedded(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_picture(tmp_path / "test" / "red.png", COLORS["red"], np.random.default_rng(1))
    embedded: list[Path] = []

    def note_folder(folder: Path, *args: Any, **options: Any) -> Collection:
        embedded.append(folder)
        return embed_together(folder, *args, **options)

    monkeypatch.setattr("laplacenet.labeling.features.embed_together", note_folder)
    with pytest.raises(InputError, match="test: nothing to test with"):
        api.label(photos, features="timm:tiny", test=tmp_path / "test", out=tmp_path / "run", device="cpu")
    assert embedded == [photos]


def test_a_test_folder_of_damaged_pictures_is_refused(photos: Path, tmp_path: Path) -> None:
    write_picture(tmp_path / "test" / "x.png", COLORS["red"], np.random.default_rng(1))
    (tmp_path / "test" / "red").mkdir()
    (tmp_path / "test" / "red" / "broken.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"test: none of 1 files could be read; the first, red/broken.png"):
        api.label(photos, features="timm:tiny", test=tmp_path / "test", out=tmp_path / "run", device="cpu")


def test_embed_gives_vectors_with_their_paths(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laplacenet.models.features.load_features", tiny_network)
    found = api.embed(photos, features="timm:tiny", device="cpu")
    assert found.rows.vectors.shape == (60, 12)
    assert found.class_names == ("blue", "green", "red")


def test_fewer_pixels_are_seen_only_where_the_time_limit_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_lite(monkeypatch)
    for row in range(80):
        Image.fromarray(np.full((20, 20, 3), row, dtype=np.uint8)).save(tmp_path / f"{row}.png")
    settings = LabelingSettings(collection=CollectionConfig(pictures=str(tmp_path), features="lite0"))
    network = features_of(settings, torch.device("cpu"))
    assert pixels_for_time(settings, network, left_s=1e9) == (None, "")
    pixels, why = pixels_for_time(settings, network, left_s=1e-9)
    assert pixels == 160
    assert "more than --for allows" in why
    smaller = replace(settings, collection=replace(settings.collection, pixels=pixels))
    assert features_of(smaller, torch.device("cpu")).pixels == 160
    embed_pictures(sorted(tmp_path.glob("*.png")), network, cache=cache_folder())
    assert pixels_for_time(settings, network, left_s=1e-9) == (None, "")  # what is in the cache costs nothing


def test_the_model_sees_later_pictures_at_as_many_pixels_as_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_lite(monkeypatch)
    network = load_features("lite0")
    transform = RowTransform(torch.zeros(network.n_features), is_rooted=False)
    weights = torch.zeros(network.n_features, 2)
    model = FeatureModel(
        "lite0", None, network.fingerprint, transform, weights, torch.zeros(2), 1.0, ("a", "b"), pixels=160
    )
    save_feature_model(tmp_path, model)
    assert load_feature_model(tmp_path).network(torch.device("cpu")).pixels == 160
