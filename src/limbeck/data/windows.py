"""Windows: the examples of token classification and extractive QA.

A text that is longer than a model reads becomes several windows. Each is an example with a uid of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from limbeck.core.errors import ModelError
from limbeck.core.record import DataCard, SplitCard
from limbeck.core.task import TaskInfo
from limbeck.data.splits import Division, Row, RowSelection, Splits, count_repeats, limited, overlaps
from limbeck.data.uids import parts_uid, repeats


class WindowRow(Row, Protocol):
    """A sentence or a question."""

    @property
    def key(self) -> tuple[str, ...]:
        """Equal rows have equal ones."""

    @property
    def group(self) -> tuple[str, ...]:
        """What is never cut apart."""

    @property
    def gold(self) -> tuple[str, ...]: ...

    @property
    def texts(self) -> tuple[str, str]:
        """What a model reads: a sentence alone, or a question and its context."""

    def with_gold(self, prediction: Any) -> WindowRow:
        """The same with a prediction, tags or an answer, for gold."""


R = TypeVar("R", bound=WindowRow)


@dataclass(frozen=True)
class Window:
    item: int  # the sentence or question it is of
    uid: int
    inputs: Mapping[str, np.ndarray]  # input_ids, and token_type_ids if the model has them: [length]
    predicted: np.ndarray  # [length] bool
    labels: np.ndarray  # [rows] int64: the tag of each predicted word; start and end of the answer
    has_label: np.ndarray  # [rows] bool
    where: np.ndarray  # [rows] the word of each predicted position; [length, 2] the characters of each token


class Windows:
    """A map-style dataset: one row per window."""

    def __init__(self, windows: Sequence[Window], row_uids: np.ndarray, truncated: int = 0) -> None:
        self.windows = windows
        self.row_uids = row_uids  # [sentences or questions] int64, unique in the corpus; one may have no window
        self.truncated = truncated  # questions that were cut
        self.lengths = [len(window.predicted) for window in windows]

    def __len__(self) -> int:
        return len(self.windows)

    @property
    def uids(self) -> np.ndarray:
        return np.array([window.uid for window in self.windows], dtype=np.int64)

    @property
    def labels(self) -> np.ndarray:
        """[rows] of all windows."""
        return np.concatenate([np.empty(0, dtype=np.int64), *(window.labels for window in self.windows)])

    @property
    def has_label(self) -> np.ndarray:
        return np.concatenate([np.empty(0, dtype=bool), *(window.has_label for window in self.windows)])

    def take(self, indices: Sequence[int] | np.ndarray) -> Windows:
        return Windows([self.windows[index] for index in indices], self.row_uids)

    def find(self, uids: Iterable[int]) -> list[Window]:
        """The windows of a batch."""
        return [self._by_uid[uid] for uid in uids]

    @cached_property
    def _by_uid(self) -> dict[int, Window]:
        return {window.uid: window for window in self.windows}

    def __getitem__(self, index: int) -> dict[str, Any]:
        window = self.windows[index]
        return {
            **window.inputs,
            "attention_mask": np.ones(len(window.predicted), dtype=np.int64),
            "predicted": window.predicted,
            "uids": window.uid,
            "labels": window.labels,
            "has_label": window.has_label,
        }


@dataclass(frozen=True)
class WindowRows(Generic[R]):
    """What was read, before any tokenizer."""

    task: TaskInfo
    parts: dict[str, RowSelection[R]]
    card: DataCard
    nullable: bool = False  # questions may be without an answer


@dataclass(frozen=True)
class WindowCorpus(Splits[Windows]):
    """The card's splits count sentences or questions."""

    task: TaskInfo
    rows: WindowRows[Any]

    def items(self, split: str) -> Sequence[WindowRow]:
        return self.rows.parts[split].rows

    def with_gold(self, split: str, predictions: Sequence[Any]) -> WindowCorpus:
        """The same with these for gold in a split: tags of its words, or an answer. Its windows stay without labels."""
        part = self.rows.parts[split]
        rows = [row.with_gold(one) for row, one in zip(part.rows, predictions, strict=True)]
        return replace(self, rows=replace(self.rows, parts={**self.rows.parts, split: replace(part, rows=rows)}))

    def texts(self, split: str) -> list[tuple[str, str]]:
        return [row.texts for row in self.items(split)]


def build_rows(
    division: Division[R],
    task: TaskInfo,
    columns: dict[str, str],
    notes: Sequence[str],
    group: str,
    nullable: bool = False,
    per_class: Callable[[Sequence[R]], dict[str, int]] = lambda rows: {},
) -> WindowRows[R]:
    """The rows of all splits with their DataCard."""
    parts = division.parts
    splits = {
        split: SplitCard(
            source=part.source,
            rows=len(part),
            labelled=sum(row.has_label for row in part.rows),
            per_class=per_class(part.rows),
        )
        for split, part in parts.items()
    }
    keys = [[row.key for row in part.rows] for part in parts.values()]
    gold = [[row.gold if row.has_label else None for row in part.rows] for part in parts.values()]
    both = overlaps({split: [row.group for row in part.rows] for split, part in parts.items()}, group)
    card = division.card(columns, splits, **count_repeats(zip(keys, gold, strict=True)), notes=[*notes, *both])
    return WindowRows(task, parts, card, nullable)


def limit_train(division: Division[R], limit: int, notes: list[str]) -> Division[R]:
    """Draws `--data.limit` rows for train; a note says so."""
    train = limited(
        division.parts["train"],
        limit,
        lambda part: (parts_uid("limit", row.key, row.where) for row in part.rows),
        notes,
    )
    return replace(division, parts={**division.parts, "train": train})


def encode_windows(
    found: WindowRows[R],
    length: int,
    cut: Callable[[Sequence[R], Sequence[int]], tuple[list[Window], int]],
    empty: str,
) -> tuple[dict[str, Windows], list[str]]:
    """The windows of every split, and notes; `cut` makes them of rows and how often each came before.

    `empty` says what a row without a window holds."""
    seen: Counter[tuple[str, ...]] = Counter()
    made: dict[str, Windows] = {}
    notes = []
    for split, part in found.parts.items():
        times = repeats((row.key for row in part.rows), seen)
        uids = [
            parts_uid("item", [str(count), *row.key], row.where) for count, row in zip(times, part.rows, strict=True)
        ]
        windows, truncated = cut(part.rows, times)
        made[split] = Windows(windows, np.array(uids, dtype=np.int64), truncated)
        counts = Counter(window.item for window in windows)
        long = [count for count in counts.values() if count > 1]
        if long:
            notes.append(
                f"{split}: {len(long):,} texts are longer than {length} tokens and read in {sum(long):,} windows"
            )
        if len(counts) < len(part):
            notes.append(f"{split}: {len(part) - len(counts):,} {empty}; nothing is learnt from them")
    return made, notes


def check_fast(tokenizer: Any) -> None:
    if not tokenizer.is_fast:
        raise ModelError(
            f"{type(tokenizer).__name__} does not say which characters a token stands for",
            "use a fast tokenizer: load it with AutoTokenizer and save it again, which writes tokenizer.json",
        )


def model_inputs(found: Any, index: int) -> dict[str, np.ndarray]:
    """What a model reads of window `index` of a tokenizer's output."""
    names = [name for name in ("input_ids", "token_type_ids") if name in found]
    return {name: np.array(found[name][index], dtype=np.int32) for name in names}


def windows_of(owners: np.ndarray, text: int) -> list[int]:
    """The windows of one text, by a tokenizer's overflow_to_sample_mapping: they stand side by side."""
    return list(range(np.searchsorted(owners, text), np.searchsorted(owners, text, side="right")))
