"""A network from an ONNX file, through onnxruntime: pictures (n, 3, h, w) in, one row of numbers a picture out.

The file says what its pictures look like, where it says anything: a size in its input's shape, and in its metadata
`mean` and `std`, three numbers each with commas between, in units of bytes. Otherwise they are squares of 224 pixels,
normalized as ImageNet's usually are. An input of bytes is given the bytes.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from laplacenet.models.features.network import FeatureNetwork
from laplacenet.runtime import InputError

PIXELS = 224
IMAGENET_MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
IMAGENET_STD = (0.229 * 255, 0.224 * 255, 0.225 * 255)
INPUT_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}


class OnnxTrunk:
    """A session; a file made for batches of one size gets its pictures in such batches, the last one filled up."""

    def __init__(self, session: Any) -> None:
        self.session = session
        entry = session.get_inputs()[0]
        self.input_name, self.dtype = entry.name, INPUT_TYPES[entry.type]
        self.fixed_batch = entry.shape[0] if isinstance(entry.shape[0], int) else None

    def __call__(self, pictures: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n d"]:
        n = len(pictures)
        values = pictures.float().cpu().contiguous().numpy().astype(self.dtype)
        size = self.fixed_batch or max(1, n)
        n_batches = -(-n // size)
        values = np.concatenate([values, np.zeros((n_batches * size - n, *values.shape[1:]), self.dtype)])
        rows = [self.session.run(None, {self.input_name: some})[0] for some in np.split(values, max(1, n_batches))]
        found = np.concatenate(rows).reshape(len(values), -1)[:n]
        return torch.from_numpy(np.ascontiguousarray(found, dtype=np.float32))


def load_onnx(path: Path, *, device: torch.device) -> FeatureNetwork:
    if not path.is_file():
        raise InputError(f"--features {path}: no such file")
    session = open_session(path, device)
    pixels = input_pixels(path, session)
    trunk = OnnxTrunk(session)
    is_bytes = trunk.dtype is np.uint8
    told = session.get_modelmeta().custom_metadata_map
    mean = (0.0, 0.0, 0.0) if is_bytes else three_numbers(path, told, "mean", IMAGENET_MEAN)
    std = (1.0, 1.0, 1.0) if is_bytes else three_numbers(path, told, "std", IMAGENET_STD)
    try:
        found = trunk(torch.zeros(1, 3, pixels, pixels))
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise InputError(f"{path}: fails on a picture of {pixels}×{pixels} pixels ({first_line(error)})") from error
    return FeatureNetwork(
        name=str(path),
        n_features=found.shape[1],
        pixels=pixels,
        fingerprint=hashlib.sha256(path.read_bytes()).hexdigest(),
        mean=mean,
        std=std,
        trunk=trunk,
        device=torch.device("cpu"),
    )


def open_session(path: Path, device: torch.device) -> Any:
    try:
        import onnxruntime  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise InputError(f"{path}: an ONNX file needs onnxruntime: pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1 if device.type == "cpu" else 0  # each thread embeds pictures of its own
    wanted = ["CUDAExecutionProvider"] if device.type == "cuda" else []
    available = onnxruntime.get_available_providers()
    providers = [one for one in [*wanted, "CPUExecutionProvider"] if one in available]
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=providers)
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise InputError(f"{path}: not an ONNX network that can be read ({first_line(error)})") from error


def input_pixels(path: Path, session: Any) -> int:
    inputs = session.get_inputs()
    shape = inputs[0].shape if len(inputs) == 1 else []
    is_accepted = len(shape) == 4 and (shape[1] == 3 or not isinstance(shape[1], int)) and inputs[0].type in INPUT_TYPES
    if not is_accepted:
        raise InputError(f"{path}: one input of pictures is needed, (n, 3, height, width) in float or uint8")
    sides = {side for side in shape[2:] if isinstance(side, int)}
    if len(sides) > 1:
        raise InputError(f"{path}: reads pictures of {shape[3]}×{shape[2]}; squares are needed")
    return sides.pop() if sides else PIXELS


def three_numbers(
    path: Path, told: dict[str, str], key: str, otherwise: tuple[float, float, float]
) -> tuple[float, float, float]:
    if key not in told:
        return otherwise
    try:
        first, second, third = (float(part) for part in told[key].split(","))
    except ValueError as error:
        raise InputError(f"{path}: its metadata has {key} = {told[key]!r}; three numbers are needed") from error
    return first, second, third


def first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
