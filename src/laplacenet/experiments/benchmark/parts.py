"""Where a network's step goes: every layer alone, forward and backward, beside the least time that it could take.

A layer's least time is that of its arithmetic at the rate of a large product, or of its memory at the rate of a large
copy, whichever is longer. Both rates are measured in the same process.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from laplacenet.experiments.benchmark.bare_step import BareStep
from laplacenet.experiments.benchmark.clock import captured, intervals_ms, release_memory
from laplacenet.experiments.benchmark.rows import Part, PartsRow
from laplacenet.experiments.benchmark.settings import BenchSettings, StepCase
from laplacenet.experiments.benchmark.steps import SIDE
from laplacenet.models.convolution import ImageSequential, image_layer
from laplacenet.models.norm import NormActivation
from laplacenet.runtime import mixed_precision
from laplacenet.runtime.device import compute_dtype, convolution_trials
from laplacenet.training import Execution

FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, NORM = "forward", "input gradient", "weight gradient", "normalization"
FIRST_LAYER = "first layer"


@dataclass(frozen=True)
class Call:
    """What went through a layer in a step: its input, and whether the input's gradient is needed."""

    name: str
    layer: nn.Module
    x: Tensor
    y: Tensor
    of_input: bool


def measure_parts(case: StepCase, settings: BenchSettings, execution: Execution) -> PartsRow:
    """The layers of a network one by one, its optimizer, and its whole bare step."""
    device, n = execution.device, settings.part_repeats
    with convolution_trials(device.type == "cuda"):
        bare = BareStep(case, execution, side=SIDE)
        whole_ms = statistics.median(intervals_ms(bare.round(n), device))
        parts = [part for call in recorded_calls(bare) for part in parts_of(call, device, n)]
        parts.append(optimizer_part(bare, n))
    release_memory(device)
    return PartsRow(
        model=case.model,
        n_images=len(bare.images),
        whole_ms=whole_ms,
        product_flop_per_s=product_rate(settings.part_product, device, n),
        copy_bytes_per_s=copy_rate(settings.part_copy_bytes, device, n),
        parts=tuple(parts),
        n_repeats=n,
    )


def recorded_calls(bare: BareStep) -> list[Call]:
    """What goes through each convolution and each normalization in one forward pass; through a first layer at once,
    where these two are one operation.
    """
    calls: list[Call] = []

    def watch(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def record(layer: nn.Module, inputs: tuple[Tensor, ...], y: Tensor) -> None:
            x = inputs[0]
            calls.append(
                Call(name, layer, x.detach().to(compute_dtype(x.device)), y.detach(), of_input=x.requires_grad)
            )

        return record

    hooks = [
        layer.register_forward_hook(watch(name))
        for name, layer in bare.network.named_modules()
        if isinstance(layer, nn.Conv2d | nn.BatchNorm2d | ImageSequential)
    ]
    with mixed_precision(bare.device):
        bare.network(bare.images)
    for hook in hooks:
        hook.remove()
    called = {call.layer for call in calls}
    calls = [call for call in calls if not (isinstance(call.layer, ImageSequential) and call.layer[0] in called)]
    return sorted(calls, key=lambda call: not isinstance(call.layer, ImageSequential))  # it was over last


def parts_of(call: Call, device: torch.device, n: int) -> list[Part]:
    if isinstance(call.layer, ImageSequential):
        return [first_layer_part(call.layer, call, device, n)]
    return convolution_parts(call, device, n) if isinstance(call.layer, nn.Conv2d) else [norm_part(call, device, n)]


def first_layer_part(body: ImageSequential, call: Call, device: torch.device, n: int) -> Part:
    """A convolution of images and its normalization as one operation, forward and backward.

    At the least the images are read and the output is written, and in the backward pass both are read again; products
    are those of the convolution and of its weights' gradient.
    """
    assert body.first_layer is not None
    convolution, norm = body.first_layer
    parameters = [*convolution.parameters(), *norm.parameters()]

    def forward() -> Tensor:
        with mixed_precision(device):
            return image_layer(convolution, norm, call.x)

    y = forward().detach()
    dy = torch.randn_like(y)
    ms = alone_ms(lambda: torch.autograd.grad(forward(), parameters, dy), device, n)
    flop = 2 * 2 * y.numel() * convolution.weight[0].numel()
    shape = f"3×3, {convolution.in_channels} → {convolution.out_channels}"
    name = f"{call.name}.0 and .1 ({shape}, {y.shape[2]}×{y.shape[3]})"
    return Part(name, FIRST_LAYER, ms, flop, 2 * (call.x.nbytes + y.nbytes))


def convolution_parts(call: Call, device: torch.device, n: int) -> list[Part]:
    """Forward, the gradient of the input where it is needed, that of the weights; 2·|y|·(inputs of a value) each.

    A gradient's time is that of a forward pass with this gradient, less that of a forward pass.
    """
    layer, x, y = call.layer, call.x, call.y
    assert isinstance(layer, nn.Conv2d)
    dy = torch.randn_like(y)

    def forward(x: Tensor) -> Tensor:
        with mixed_precision(device):
            z: Tensor = layer(x)
        return z

    def gradient_ms(x: Tensor, of: Tensor) -> float:
        return alone_ms(lambda: torch.autograd.grad(forward(x), of, dy), device, n) - times[FORWARD]

    with torch.no_grad():
        times = {FORWARD: alone_ms(lambda: forward(x), device, n)}
    if call.of_input:
        leaf = x.clone().requires_grad_()
        times[INPUT_GRADIENT] = gradient_ms(leaf, leaf)
    times[WEIGHT_GRADIENT] = gradient_ms(x, layer.weight)
    flop = 2 * y.numel() * layer.weight[0].numel()
    n_bytes = x.nbytes + y.nbytes + layer.weight.numel() * x.element_size()
    shape = f"{layer.kernel_size[0]}×{layer.kernel_size[1]}, {layer.in_channels} → {layer.out_channels}"
    name = f"{call.name} ({shape}, {y.shape[2]}×{y.shape[3]})"
    return [Part(name, kind, ms, flop, n_bytes) for kind, ms in times.items()]


def norm_part(call: Call, device: torch.device, n: int) -> Part:
    """Normalization with its activation and pooling, forward and backward.

    At the least the input is read for its sums and to be normalized, in the backward pass twice more, and a gradient of
    its size is written; the output is written once, and its gradient read twice.
    """
    layer, x, y = call.layer, call.x, call.y
    leaf, dy = x.clone().requires_grad_(), torch.randn_like(y).to(x.dtype)

    def work() -> object:
        with mixed_precision(device):
            z = layer(leaf)
        return torch.autograd.grad(z, [leaf, *layer.parameters()], dy.to(z.dtype))

    pooled = isinstance(layer, NormActivation) and layer.pool
    name = f"{call.name} ({x.shape[1]}, {x.shape[2]}×{x.shape[3]}{', pooled' if pooled else ''})"
    return Part(name, NORM, alone_ms(work, device, n), 0, 5 * x.nbytes + 3 * dy.nbytes)


def optimizer_part(bare: BareStep, n: int) -> Part:
    """SGD with momentum: weights and momentum are read and written, gradients read."""
    n_bytes = 5 * sum(parameter.nbytes for parameter in bare.network.parameters())
    for parameter in bare.network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    return Part("all weights", "optimizer", alone_ms(bare.optimizer.step, bare.device, n), 0, n_bytes)


def product_rate(side: int, device: torch.device, n: int) -> float:
    """Operations a second of a large square product of random numbers."""
    a, b = (torch.randn(side, side, device=device).to(compute_dtype(device)) for _ in range(2))
    return 2 * side**3 / (alone_ms(lambda: a @ b, device, n) / 1000)


def copy_rate(n_bytes: int, device: torch.device, n: int) -> float:
    """Bytes a second, those read and those written, of a large copy with its sign changed.

    A plain copy would be left to the copy engine when it is replayed, which is slower than a kernel.
    """
    source = torch.randn(n_bytes // 4, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / (alone_ms(lambda: torch.neg(source, out=target), device, n) / 1000)


def alone_ms(work: Callable[[], object], device: torch.device, n: int) -> float:
    """The median of `n` replays, one after the other."""

    def take() -> None:
        work()

    replay = captured(take, device) if device.type == "cuda" else take
    return statistics.median(intervals_ms((replay() for _ in range(n + 1)), device)[1:])
