"""Real files with real quirks: the counts are those of each folder's SOURCE.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from limbeck.data.settings import DataSettings
from limbeck.data.text.examples import read_texts

SHARED = Path(__file__).parents[3] / "shared" / "data"
pytestmark = [pytest.mark.data, pytest.mark.skipif(not SHARED.is_dir(), reason="no ../shared/data beside the project")]


@pytest.mark.parametrize(
    ("folder", "flags", "kind", "rows"),
    [
        ("sst2", {}, "classify", {"train": 67_349, "dev": 872, "test": 1_821}),
        ("mrpc", {}, "classify", {"train+dev": 4_076, "test": 1_725}),
        ("rte", {}, "classify", {"train+test": 2_490, "dev": 277}),
        (
            "stsb",
            {"text_column": "6", "pair_column": "7", "label_column": "5"},
            "regress",
            {"train": 5_749, "dev": 1_500, "test": 1_379},
        ),
    ],
)
def test_every_row_arrives(folder: str, flags: dict[str, Any], kind: str, rows: dict[str, int]) -> None:
    corpus = read_texts(DataSettings(train=str(SHARED / folder), **flags))
    assert corpus.task.kind == kind
    for splits, count in rows.items():
        assert sum(corpus.card.splits[split].rows for split in splits.split("+")) == count


def test_mrpc_keeps_its_classes_and_quotes() -> None:
    corpus = read_texts(DataSettings(train=str(SHARED / "mrpc")))
    assert sum(corpus.card.splits[split].per_class["1"] for split in ("train", "dev")) == 2_753
    assert any(text.startswith('"') for text in corpus.train.texts)
