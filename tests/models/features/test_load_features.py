"""Networks from timm and from ONNX files, and what is said where they cannot be had."""

import builtins
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from laplacenet.models.features import load_features
from laplacenet.runtime import InputError


def test_an_unknown_name_is_answered_with_those_that_are_known() -> None:
    with pytest.raises(InputError, match=r"unknown features 'lite9'; choose lite0, lite1, lite2, timm:NAME"):
        load_features("lite9")


def test_weights_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_features("lite0", weights=tmp_path / "none.pth")


@pytest.mark.parametrize(
    "error", [RuntimeError("operator torchvision::nms does not exist"), OSError("x\ny"), ImportError("z")]
)
def test_a_timm_that_cannot_be_imported_gives_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    usual = builtins.__import__

    def fail(name: str, *args: Any) -> Any:
        if name.startswith("timm"):
            raise error
        return usual(name, *args)

    monkeypatch.setattr(builtins, "__import__", fail)
    with pytest.raises(InputError, match="cannot be imported") as raised:
        load_features("timm:resnet18")
    assert "\n" not in str(raised.value)


def test_a_timm_that_is_not_installed_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = builtins.__import__

    def fail(name: str, *args: Any) -> Any:
        if name.startswith("timm"):
            raise ModuleNotFoundError("No module named 'timm'", name="timm")
        return usual(name, *args)

    monkeypatch.setattr(builtins, "__import__", fail)
    with pytest.raises(InputError, match="pip install timm"):
        load_features("timm:resnet18")


def usable_timm() -> Any:
    try:
        import timm
    except Exception as error:
        pytest.skip(f"timm cannot be imported: {error}")
    return timm


def test_a_timm_model_reads_its_weights_from_a_file(tmp_path: Path) -> None:
    timm = usable_timm()
    model = timm.create_model("resnet10t", pretrained=False)
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    features = load_features("timm:resnet10t", weights=tmp_path / "weights.pth")
    assert features.embed(torch.zeros(2, 3, features.pixels, features.pixels, dtype=torch.uint8)).shape == (2, 512)


def test_an_unknown_timm_model_is_refused() -> None:
    usable_timm()
    with pytest.raises(InputError, match="no such model"):
        load_features("timm:no_such_model")


class FakeTimm:
    """What this package uses of timm, without its network code."""

    __version__ = "0"

    class data:  # noqa: N801 - timm's own name
        @staticmethod
        def resolve_model_data_config(model: nn.Module) -> dict[str, object]:
            return {"input_size": (3, 16, 16), "mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}

    @staticmethod
    def is_model(name: str) -> bool:
        return name == "tiny"

    @staticmethod
    def create_model(name: str, *, pretrained: bool, num_classes: int) -> nn.Module:
        if pretrained:
            raise OSError("We couldn't connect to the hub\nand more")
        model = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 5))
        model.num_features = 5
        return model


def test_a_model_that_needs_a_download_gives_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laplacenet.models.features.timm_model.import_timm", lambda: FakeTimm)
    with pytest.raises(InputError, match=r"could not be downloaded .*connect to the hub.*--weights FILE") as raised:
        load_features("timm:tiny")
    assert "\n" not in str(raised.value)


def test_a_models_own_size_and_normalization_are_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("laplacenet.models.features.timm_model.import_timm", lambda: FakeTimm)
    linear = nn.Linear(3, 5)
    torch.save({"2.weight": linear.weight.data, "2.bias": linear.bias.data}, tmp_path / "w.pth")
    features = load_features("timm:tiny", weights=tmp_path / "w.pth")
    assert features.pixels == 16
    pictures = torch.full((1, 3, 16, 16), 51, dtype=torch.uint8)
    with torch.no_grad():
        expected = linear(torch.full((1, 3), (51 / 255 - 0.5) / 0.25))
    torch.testing.assert_close(features.embed(pictures), expected)


def test_weights_of_other_shapes_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("laplacenet.models.features.timm_model.import_timm", lambda: FakeTimm)
    torch.save({"2.weight": torch.zeros(7, 3), "2.bias": torch.zeros(7)}, tmp_path / "w.pth")
    with pytest.raises(InputError, match="weights of another network than timm:tiny"):
        load_features("timm:tiny", weights=tmp_path / "w.pth")


def test_weights_that_lack_a_tensor_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("laplacenet.models.features.timm_model.import_timm", lambda: FakeTimm)
    torch.save({"2.weight": torch.zeros(5, 3)}, tmp_path / "w.pth")
    with pytest.raises(InputError, match=r"it lacks 2\.bias"):
        load_features("timm:tiny", weights=tmp_path / "w.pth")


def write_onnx(
    path: Path, *, batch: int | str, element: int, metadata: dict[str, str], sides: Sequence[object]
) -> None:
    """The mean of each channel."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, kinds = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=kinds.FLOAT),
        helper.make_node("GlobalAveragePool", ["f"], ["m"]),
    ]
    graph = helper.make_graph(
        nodes,
        "means",
        [helper.make_tensor_value_info("x", element, [batch, 3, *sides])],
        [helper.make_tensor_value_info("m", kinds.FLOAT, [batch, 3, 1, 1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, metadata)
    onnx.save(model, str(path))


@pytest.mark.parametrize("batch", ["n", 1, 2])
def test_an_onnx_file_embeds_with_the_normalization_it_names(tmp_path: Path, batch: int | str) -> None:
    path = tmp_path / "means.onnx"
    write_onnx(path, batch=batch, element=1, metadata={"mean": "10,20,30", "std": "2,2,2"}, sides=[8, 8])
    features = load_features(str(path))
    assert (features.pixels, features.n_features) == (8, 3)
    pictures = torch.full((3, 3, 8, 8), 50, dtype=torch.uint8)
    torch.testing.assert_close(features.embed(pictures), torch.tensor([[20.0, 15.0, 10.0]] * 3))


def test_an_onnx_file_that_reads_bytes_gets_them(tmp_path: Path) -> None:
    path = tmp_path / "means.onnx"
    write_onnx(path, batch="n", element=2, metadata={}, sides=["h", "w"])
    features = load_features(str(path))
    assert features.pixels == 224
    assert features.embed(torch.full((1, 3, 224, 224), 7, dtype=torch.uint8)).tolist() == [[7.0, 7.0, 7.0]]


@pytest.mark.parametrize("sides", [[8, 9], [8]])
def test_an_onnx_file_that_reads_no_square_pictures_is_refused(tmp_path: Path, sides: Sequence[object]) -> None:
    path = tmp_path / "means.onnx"
    write_onnx(path, batch="n", element=1, metadata={}, sides=sides)
    with pytest.raises(InputError, match="needed"):
        load_features(str(path))


def test_a_file_that_is_no_onnx_network_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = tmp_path / "x.onnx"
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match="not an ONNX network"):
        load_features(str(path))
