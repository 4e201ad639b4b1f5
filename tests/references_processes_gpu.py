"""What two processes that share a GPU through gloo compute together: run as a script, this is one of them."""

import sys
from pathlib import Path

import torch
from references_processes import bars_run
from torch import Tensor

from laplacenet.models import build_model
from laplacenet.models.norm import NormActivation
from laplacenet.runtime import current_group, end_group, start_group
from laplacenet.runtime.sharing import Share, sharing
from laplacenet.training import Execution, Run
from laplacenet.training.loop import prepare
from laplacenet.training.step import Stepper

GPU = Execution(torch.device("cuda"), capture=False)


def fused_norm(*, pool: bool) -> dict[str, Tensor]:
    """A whole batch of 15 images, or this process's share, through the fused kernels; results on the host."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(15, 16, 8, 8, generator=generator) * 3 + 5
    side = 4 if pool else 8
    weights = torch.randn(15, 16, side, side, generator=generator)
    group = current_group()
    own = group.part(len(x))
    rows = x[own.start : own.stop].cuda().contiguous(memory_format=torch.channels_last).requires_grad_()
    norm = NormActivation(16, slope=0.1, pool=pool).cuda()
    assert norm._fits_kernels(rows)
    with sharing(Share(len(own), len(x)) if group.reduces else None):
        y = norm(rows)
        (y * weights[own.start : own.stop].cuda()).sum().backward()
    assert rows.grad is not None
    parameters = {name: group.sum_(parameter.grad.cpu()) for name, parameter in norm.named_parameters()}  # type: ignore[union-attr]
    buffers = {name: buffer.cpu() for name, buffer in norm.named_buffers()}
    return {"y": group.gather(y.detach().cpu()), "dx": group.gather(rows.grad.cpu()), **parameters, **buffers}


def gradients() -> dict[str, Tensor]:
    """Of one uncaptured step from equal weights."""
    few = bars_run(build_model("small-cnn", n_classes=3, in_channels=1))
    run = Run(few.method, few.learner, few.inputs, GPU)
    stepper = Stepper(run.method, prepare(run.learner, GPU), run.inputs, execution=GPU)
    plan = run.method.plan_epoch(0, 0, learner=stepper.learner, inputs=stepper.supply.inputs)
    stepper.begin(plan)
    list(stepper.run(run.method.draw(plan, 0, 1)))
    return {name: parameter.grad.cpu() for name, parameter in run.learner.named_parameters()}  # type: ignore[union-attr]


def main(folder: Path) -> None:
    group = start_group(GPU.device, backend="gloo")
    torch.manual_seed(0)
    results = {"norm": fused_norm(pool=False), "pooled": fused_norm(pool=True), "gradients": gradients()}
    torch.save(results, folder / f"results-{group.rank}.pt")
    group.agree(False)
    end_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
