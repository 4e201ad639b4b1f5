"""Which data and labels the runs of a comparison were made with: results on others are not comparable."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from laplacenet.data import Dataset, data_hash

SPOKEN = {"inputs": "other training inputs", "test": "another test set", "labels": "other labels"}


@dataclass(frozen=True)
class DataHashes:
    """Of the training inputs, of the test set with its labels, and of the labels that training sees.

    Labels that are hidden from training are not compared: the results do not depend on them.
    """

    inputs: str
    test: str | None
    labels: str

    @classmethod
    def of(cls, dataset: Dataset, given_labels: Int64[Tensor, " n"]) -> "DataHashes":
        train, test = dataset.train, dataset.test
        inputs = data_hash(replace(train, labels=torch.zeros_like(train.labels)))
        return cls(inputs, None if test is None else data_hash(test), hash_of_labels(given_labels))

    def with_labels(self, given_labels: Int64[Tensor, " n"]) -> "DataHashes":
        """Other labels of the same data."""
        return replace(self, labels=hash_of_labels(given_labels))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def changed_since(self, known: Mapping[str, Any]) -> str:
        """What has changed, in words; nothing where all is as it was, or not known."""
        now = self.to_json()
        changed = [words for name, words in SPOKEN.items() if name in known and known[name] != now[name]]
        return " and ".join(changed)


def hash_of_labels(labels: Int64[Tensor, " n"]) -> str:
    return hashlib.sha256(labels.cpu().contiguous().numpy().data).hexdigest()
