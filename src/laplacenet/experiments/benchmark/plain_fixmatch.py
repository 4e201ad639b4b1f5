"""FixMatch as most people write it: torchvision's augmentations in worker processes, automatic mixed precision.

Written from the paper with nothing of this package, as what our step is measured against. It is not slowed down on
purpose: bf16 needs no gradient scaler, no loss is read back, and every core of the host augments.
"""

import copy
import math
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, RandomSampler

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)
THRESHOLD, DECAY, N_STEPS = 0.95, 0.999, 2**20
Transform = Callable[[Image.Image], Tensor]


class Block(nn.Module):
    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(n_in), nn.BatchNorm2d(n_out)
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.shortcut = None if n_in == n_out else nn.Conv2d(n_in, n_out, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = functional.relu(self.norm1(x), inplace=True)
        shortcut = x if self.shortcut is None else self.shortcut(active)
        out: Tensor = self.conv2(functional.relu(self.norm2(self.conv1(active)), inplace=True))
        return out + shortcut


class WideResNet28x2(nn.Module):
    def __init__(self, n_classes: int) -> None:
        super().__init__()
        widths, strides = (16, 32, 64, 128), (1, 2, 2)
        self.conv = nn.Conv2d(3, widths[0], 3, padding=1, bias=False)
        self.blocks = nn.Sequential(
            *(
                Block(
                    widths[stage] if number == 0 else widths[stage + 1], widths[stage + 1], stride if number == 0 else 1
                )
                for stage, stride in enumerate(strides)
                for number in range(4)
            )
        )
        self.norm, self.head = nn.BatchNorm2d(widths[-1]), nn.Linear(widths[-1], n_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.norm(self.blocks(self.conv(x))), inplace=True)
        logits: Tensor = self.head(x.mean(dim=(2, 3)))
        return logits


class Pictures(Dataset[tuple[Any, ...]]):
    """Each picture in one or two views, and its label."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, transforms: tuple[Transform, ...]) -> None:
        self.images, self.labels, self.transforms = images, labels, transforms

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> tuple[Any, ...]:
        picture = Image.fromarray(self.images[row])
        return (*(transform(picture) for transform in self.transforms), int(self.labels[row]))


def torchvision_transforms() -> tuple[Transform, Transform]:
    """Weak: flip and shift; strong: RandAugment and cutout beside them."""
    from torchvision import transforms  # noqa: PLC0415  an optional package

    shift = [transforms.RandomHorizontalFlip(), transforms.RandomCrop(32, padding=4, padding_mode="reflect")]
    tensor = [transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)]
    cutout = transforms.RandomErasing(p=1.0, scale=(0.25, 0.25), ratio=(1.0, 1.0))
    strong = transforms.Compose([*shift, transforms.RandAugment(num_ops=2, magnitude=10), *tensor, cutout])
    return transforms.Compose([*shift, *tensor]), strong


def endless(data: Pictures, batch_size: int, *, n_workers: int, device: torch.device) -> Iterator[Any]:
    sampler = RandomSampler(data, replacement=True, num_samples=10**7)
    yield from DataLoader(
        data,
        batch_size,
        sampler=sampler,
        drop_last=True,
        num_workers=n_workers,
        pin_memory=device.type == "cuda",
    )


def plain_steps(
    images: Tensor,
    labels: Tensor,
    *,
    sizes: tuple[int, int],
    n_classes: int,
    device: torch.device,
    n_workers: int,
) -> Generator[Tensor, None, None]:
    """One loss a step, for as long as it is asked, from batches of labeled and of unlabeled images.

    All workers but an eighth make unlabeled batches.
    """
    weak, strong = torchvision_transforms()
    pixels, classes = images.permute(0, 2, 3, 1).contiguous().numpy(), labels.numpy()
    n_given = min(4_000, len(images) // 2)
    n_labeled_workers = -(-n_workers // 8)
    n_other_workers = max(n_workers - n_labeled_workers, min(n_workers, 1))
    given = Pictures(pixels[:n_given], classes[:n_given], (weak,))
    labeled = endless(given, sizes[0], n_workers=n_labeled_workers, device=device)
    every = Pictures(pixels, classes, (weak, strong))
    unlabeled = endless(every, sizes[1], n_workers=n_other_workers, device=device)

    network = WideResNet28x2(n_classes).to(device)
    average = copy.deepcopy(network).requires_grad_(False)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.03, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: math.cos(7 * math.pi * step / (16 * N_STEPS)))
    for (x, y), (u_weak, u_strong, _) in zip(labeled, unlabeled, strict=True):
        inputs = torch.cat([x, u_weak, u_strong]).to(device, non_blocking=True)
        loss = fixmatch_loss(network, inputs, y.to(device, non_blocking=True))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        update(average, network)
        yield loss.detach()


def fixmatch_loss(network: nn.Module, inputs: Tensor, y: Tensor) -> Tensor:
    with torch.autocast(inputs.device.type, torch.bfloat16, enabled=inputs.is_cuda):
        logits = network(inputs)
    logits = logits.float()
    weak, strong = logits[len(y) :].chunk(2)
    confidence, guess = weak.detach().softmax(dim=1).max(dim=1)
    losses = functional.cross_entropy(strong, guess, reduction="none")
    loss: Tensor = functional.cross_entropy(logits[: len(y)], y) + (losses * (confidence >= THRESHOLD)).mean()
    return loss


@torch.no_grad()
def update(average: nn.Module, network: nn.Module) -> None:
    for mean, value in zip(average.parameters(), network.parameters(), strict=True):
        mean.mul_(DECAY).add_(value, alpha=1 - DECAY)
    for kept, latest in zip(average.buffers(), network.buffers(), strict=True):
        kept.copy_(latest)
