"""Which examples, and how to read them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import field_validator

from limbeck.core.knob import Settings, knob
from limbeck.core.task import HUB_TAGS


class DataSettings(Settings):
    train: str = knob(
        "",
        "a CSV, TSV, JSONL or Parquet file, of tags also CoNLL, of answers also SQuAD's JSON (all also gzipped), a "
        "folder with train/dev/test files, a saved datasets folder, or a hub id",
        short="--data",
    )
    dev: str = knob("", "a file that chooses the best checkpoint; without one, a part of train is cut off for it")
    test: str = knob("", "a file that is only measured on; without one, a part of train is cut off for it")
    text_column: str = knob("", "the column with the text; by default found by its name", short="--text-column")
    pair_column: str = knob("", "the column with the second text of a pair; by default found by its name")
    label_column: str = knob(
        "",
        "the column with the label, or none; several 0/1 columns, separated by commas, make a multi-label task",
        short="--label-column",
    )
    task: Literal[
        "auto", "classify", "multilabel", "regress", "tag", "answer", "mask-fill", "generate", "translate"
    ] = knob(
        "auto",
        "one class per text, any number of labels, a number (auto looks at teacher and labels), a tag per word, the "
        "place of an answer, running text (words under a mask, or the next word), or a text from a text; "
        "the Hub's tags, such as text-classification, mean the same",
        short="--task",
    )
    classes: str = knob(
        "", "class names in the teacher's order, separated by commas; needed when it only knows LABEL_0, LABEL_1, …"
    )
    separator: str = knob("|", "what stands between the labels in one cell of a multi-label column")
    quoting: Literal["auto", "csv", "none"] = knob(
        "auto", 'whether "…" wraps a field (csv) or is part of the text (none); auto decides by looking'
    )
    header: Literal["auto", "yes", "no"] = knob(
        "auto", "whether the first line names the columns; without names they are called 1, 2, 3, …"
    )
    encoding: str = knob(
        "auto", "how the file writes its letters; auto is UTF-8 (UTF-16 if marked so) and refuses any other"
    )
    max_length: int = knob(128, "tokens kept of a text; what is longer is cut and counted", at_least=8)
    limit: int = knob(
        0,
        "train on this many rows (of running text: blocks), drawn by hash and so always the same ones; 0 is all",
        at_least=0,
    )
    dev_share: float = knob(0.1, "the part of train cut off for dev when there is no dev file", above=0, below=1)
    test_share: float = knob(0.1, "the part of train cut off for test when there is no test file", above=0, below=1)

    @field_validator("task", mode="before")
    @classmethod
    def _from_the_hub(cls, value: Any) -> Any:
        return HUB_TAGS.get(value, value) if isinstance(value, str) else value
