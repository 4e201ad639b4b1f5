"""A trained network for other programs: from the bytes of pictures to calibrated probabilities, in one file.

The exported model reads `images`, uint8 of shape (n, channels, height, width) with any n, RGB or grey, as a decoder
gives them: normalization is inside, so there is nothing to get wrong outside. It gives `probabilities`, float32 of
shape (n, classes), rows that sum to 1, calibrated by the run's temperature. The classes' names, in order, go along as
metadata.
"""

import contextlib
import copy
import importlib.util
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

import laplacenet
from laplacenet.augment import normalized
from laplacenet.models import Inference, ModelDescription, Network
from laplacenet.runtime import InputError, RunError, stream
from laplacenet.runtime.files import write_named
from laplacenet.runtime.memory import free_memory

FORMATS = {"torch-export": "model.pt2", "onnx": "model.onnx"}
NEEDED_FOR_ONNX = ("onnx", "onnxscript", "onnxruntime")
METADATA = "laplacenet.json"
TOLERANCE = 1e-4
LARGE_SIDE = 256

ExportedNetwork = Callable[[UInt8[Tensor, "n c h w"]], Float[Tensor, "n C"]]


class Deployed(nn.Module):
    """Bytes of pictures to probabilities."""

    scale: Tensor
    offset: Tensor

    def __init__(self, network: Network, description: ModelDescription) -> None:
        super().__init__()
        assert description.statistics is not None
        self.network = network
        self.temperature = description.temperature
        mean, std = (
            torch.tensor(values)[:, None, None] for values in (description.statistics.mean, description.statistics.std)
        )
        self.register_buffer("scale", 1 / (255 * std))
        self.register_buffer("offset", -mean / std)

    def forward(self, images: Tensor) -> Tensor:
        x = images.to(torch.float32) * self.scale + self.offset
        logits: Tensor = self.network(x)
        return (logits / self.temperature).softmax(dim=1)


def export_model(network: Network, description: ModelDescription, out: Path, *, form: str) -> float:
    """Write the model and compare it with the network; returns the largest difference between their probabilities.

    Nothing is left at `out` unless they agree.
    """
    if form not in FORMATS:
        raise InputError(f"--format {form}: choose one of {', '.join(FORMATS)}")
    if len(description.input_shape) != 3 or description.statistics is None:
        raise InputError("this network reads vectors; only networks for pictures are exported")
    if form == "onnx":
        require_onnx()
    require_memory(network, description.input_shape)
    deployed = Deployed(network.cpu().eval(), description).eval()
    content = onnx_bytes(deployed, description) if form == "onnx" else torch_export_bytes(deployed, description)
    judge = load_onnx(content) if form == "onnx" else load_torch_export(content)
    difference = largest_difference(judge, network, description)
    if not difference <= TOLERANCE:
        raise RunError(f"the exported model differs from the network by {difference:.2g}; nothing was written")
    write_named(out, content)
    return difference


def require_onnx() -> None:
    if not all(importlib.util.find_spec(name) for name in NEEDED_FOR_ONNX):
        raise InputError(f"--format onnx needs the extra `export` ({', '.join(NEEDED_FOR_ONNX)}); or use torch-export")


def is_large(shape: tuple[int, ...]) -> bool:
    """Whether inference on such pictures takes long."""
    return len(shape) == 3 and shape[1] * shape[2] > LARGE_SIDE**2


def checked_batches(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Batch sizes other than the one it was traced with, unless that takes too long."""
    return (1,) if is_large(shape) else (1, 5)


def require_memory(network: Network, shape: tuple[int, ...]) -> None:
    """Refuse pictures so large that there is not enough memory for inference."""
    needed, free = activation_bytes(network, shape, n=max(checked_batches(shape))), free_memory()
    if needed > free:
        size = "×".join(map(str, shape))
        raise InputError(
            f"pictures of {size}: to check the exported file takes about {needed / 2**30:.1f} GiB of memory,"
            f" {free / 2**30:.1f} are free; train with smaller pictures (--size)"
        )


def activation_bytes(network: Network, shape: tuple[int, ...], *, n: int) -> int:
    """What the largest layer reads and writes for `n` pictures; computed on the meta device, without any memory."""
    copied, largest = copy.deepcopy(network).to("meta").eval(), 0

    def note(_: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        nonlocal largest
        tensors = [value for value in (*inputs, output) if isinstance(value, Tensor)]
        largest = max(largest, sum(tensor.numel() * tensor.element_size() for tensor in tensors))

    for module in copied.modules():
        module.register_forward_hook(note)
    with torch.no_grad():
        copied.embed(torch.empty((n, *shape), device="meta"))
    return largest


def metadata(description: ModelDescription) -> dict[str, Any]:
    """What users of the file need to know."""
    return {
        "made by": f"laplacenet {laplacenet.__version__}",
        "model": description.model.name,
        "input": "images: uint8, (n, channels, height, width), RGB or grey, not normalized",
        "input_shape": list(description.input_shape),
        "output": "probabilities: float32, (n, classes), calibrated",
        "class_names": list(description.class_names),
    }


def samples(shape: tuple[int, ...], n: int) -> UInt8[Tensor, "n c h w"]:
    return torch.from_numpy(stream(0, "export", n).integers(0, 256, size=(n, *shape), dtype="uint8"))


def traced(deployed: Deployed, shape: tuple[int, ...]) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("n", min=1)
    with quiet():
        return torch.export.export(deployed, (samples(shape, 2),), dynamic_shapes={"images": {0: batch}})


def torch_export_bytes(deployed: Deployed, description: ModelDescription) -> bytes:
    buffer = io.BytesIO()
    program = traced(deployed, description.input_shape)
    with quiet():
        torch.export.save(program, buffer, extra_files={METADATA: json.dumps(metadata(description))})
    return buffer.getvalue()


def load_torch_export(content: bytes) -> ExportedNetwork:
    with quiet():
        module = torch.export.load(io.BytesIO(content)).module()
    return lambda images: module(images).detach()


def onnx_bytes(deployed: Deployed, description: ModelDescription) -> bytes:
    with quiet():
        program = torch.onnx.export(
            traced(deployed, description.input_shape),
            input_names=["images"],
            output_names=["probabilities"],
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    known = {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in metadata(description).items()
    }
    program.model.metadata_props.update(known)
    return bytes(program.model_proto.SerializeToString())


def load_onnx(content: bytes) -> ExportedNetwork:
    import onnxruntime  # noqa: PLC0415  an extra

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return lambda images: torch.from_numpy(session.run(["probabilities"], {"images": images.numpy()})[0])


def largest_difference(judge: ExportedNetwork, network: Network, description: ModelDescription) -> float:
    """Between the exported model and the inference that `laplacenet predict` uses."""
    assert description.statistics is not None
    inference = Inference(network, partial(normalized, statistics=description.statistics))
    differences = []
    for n in checked_batches(description.input_shape):
        images = samples(description.input_shape, n)
        expected = (inference.logits(images) / description.temperature).softmax(dim=1)
        differences.append(float((judge(images) - expected).abs().max()))
    return max(differences)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide the exporters' warnings, which are about their own internals."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.WARNING))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
