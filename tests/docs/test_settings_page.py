"""The page of settings names every setting with its default, and no other."""

import dataclasses
import re

import pytest
from references_docs import ROOT

from laplacenet.augment import AugmentConfig
from laplacenet.experiments.experiment import DataConfig
from laplacenet.graph import GraphConfig
from laplacenet.models import ModelConfig
from laplacenet.training import LaplaceNetConfig, TrainConfig

SECTIONS = {
    "train": TrainConfig(),
    "method": LaplaceNetConfig(),
    "graph": GraphConfig(),
    "augment": AugmentConfig(),
    "model": ModelConfig(),
    "data": DataConfig(),
}
ROW = re.compile(r"^\| `(?P<section>\w+)\.(?P<field>\w+)` \| (?P<default>[^|]+) \| ", re.M)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_setting_stands_on_the_page_with_its_default(section: str) -> None:
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    listed = {row["field"]: row["default"] for row in ROW.finditer(page) if row["section"] == section}
    values = dataclasses.asdict(SECTIONS[section])
    assert listed == {field: str(value).lower() if value != 5e-4 else "0.0005" for field, value in values.items()}
