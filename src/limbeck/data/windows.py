"""Windows: the examples of token classification and extractive QA.

A text that is longer than a model reads becomes several windows. Each is an example with a uid of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from limbeck.core.errors import ModelError
from limbeck.core.progress import Watcher
from limbeck.core.record import DataCard, SplitCard
from limbeck.core.task import TaskInfo
from limbeck.data.settings import DataSettings
from limbeck.data.splits import Division, RowSelection, Splits, draw_split, log_card
from limbeck.data.uids import parts_uid, repeats

CHUNK = 500  # texts handed to the tokenizer at once: bounds the memory its Python lists take


@dataclass(frozen=True)
class WindowRow:
    """A sentence or a question."""

    key: tuple[str, ...]  # the words; the question and its context
    texts: tuple[str, str]  # what a model reads: a sentence alone, or a question and its context
    gold: tuple[str, ...]  # a tag for each word, "" where it has none; the answers, any of which is right
    has_label: bool
    where: str
    group: tuple[str, ...]  # what is never cut apart
    split_hash: float


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
        golds = [tuple(filter(None, [one])) if isinstance(one, str) else tuple(one) for one in predictions]
        rows = [replace(row, gold=gold, has_label=True) for row, gold in zip(part.rows, golds, strict=True)]
        return replace(self, rows=replace(self.rows, parts={**self.rows.parts, split: replace(part, rows=rows)}))

    def texts(self, split: str) -> list[tuple[str, str]]:
        return [row.texts for row in self.items(split)]


def build_rows(
    division: Division[R],
    task: TaskInfo,
    columns: dict[str, str],
    notes: Sequence[str],
    group: str,
    *,
    labels: Sequence[str] = (),
    nullable: bool = False,
) -> WindowRows[R]:
    """The rows of all splits with their DataCard, which counts each of the `labels`."""
    rows = {split: part.rows for split, part in division.parts.items()}
    splits = {}
    for split, part in division.parts.items():
        counts = Counter(gold for row in part.rows for gold in row.gold)
        splits[split] = SplitCard(
            source=part.source,
            rows=len(part),
            labelled=sum(row.has_label for row in part.rows),
            per_class={label: counts[label] for label in labels},
        )
    card = division.card(
        columns,
        splits,
        group,
        {split: [row.key for row in some] for split, some in rows.items()},
        labels={split: [row.gold if row.has_label else None for row in some] for split, some in rows.items()},
        groups={split: [row.group for row in some] for split, some in rows.items()},
        notes=notes,
    )
    return WindowRows(task, division.parts, card, nullable)


def unlabelled_rows(rows: Sequence[R], task: TaskInfo) -> WindowRows[R]:
    """Rows that are only predicted: the test split of nothing else."""
    empty: RowSelection[R] = RowSelection()
    parts = {"train": empty, "dev": empty, "test": RowSelection(rows)}
    return WindowRows(task, parts, DataCard(source="", columns={}, read=len(rows)))


def limit_rows(division: Division[R], settings: DataSettings, notes: list[str]) -> Division[R]:
    """Draws the rows that `--data.limit`, `--data.limit-dev` and `--data.limit-test` leave; notes say so."""
    parts = dict(division.parts)
    for split, part in division.parts.items():
        hashes = [parts_uid("limit", row.key, row.where) for row in part.rows]
        if drawn := draw_split(split, hashes, settings, notes):
            parts[split] = part.take(drawn)
    return replace(division, parts=parts)


def numbered(found: WindowRows[R]) -> Iterator[tuple[str, Sequence[R], list[int], np.ndarray]]:
    """Each split with its rows, how often each row came before, and their uids."""
    seen: Counter[tuple[str, ...]] = Counter()
    for split, part in found.parts.items():
        times = repeats([row.key for row in part.rows], seen)
        named = zip(times, part.rows, strict=True)
        uids = [parts_uid("item", [str(count), *row.key], row.where) for count, row in named]
        yield split, part.rows, times, np.array(uids, dtype=np.int64)


def cut_windows(
    texts: Sequence[tuple[str, str]], tokenizer: Any, length: int, stride: int
) -> Iterator[tuple[int, Any, list[int]]]:
    """Of each text: its number, the output of the tokenizer that it is in, and its windows there.

    Of a pair only the second text is cut, and it may not be empty."""
    for start in range(0, len(texts), CHUNK):
        firsts, seconds = (list(side) for side in zip(*texts[start : start + CHUNK], strict=True))
        pairs = any(seconds)
        found = tokenizer(
            firsts,
            seconds if pairs else None,
            truncation="only_second" if pairs else True,
            max_length=length,
            stride=stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding=False,
            verbose=False,
        )
        owners = np.array(found["overflow_to_sample_mapping"])  # the windows of one text stand side by side
        for item in range(len(firsts)):
            first, last = np.searchsorted(owners, item), np.searchsorted(owners, item, side="right")
            yield start + item, found, list(range(first, last))


def model_inputs(found: Any, index: int) -> dict[str, np.ndarray]:
    """What a model reads of window `index` of a tokenizer's output."""
    names = [name for name in ("input_ids", "token_type_ids") if name in found]
    return {name: np.array(found[name][index], dtype=np.int32) for name in names}


def build_corpus(
    found: WindowRows[R],
    made: Mapping[str, Windows],
    length: int,
    empty: str,
    watcher: Watcher,
    truncated: Sequence[str] = (),
) -> WindowCorpus:
    """Logs what was chosen and what became of every row; `empty` says what a row without a window holds, and
    `truncated` are notes on questions that were cut."""
    notes = []
    for split, windows in made.items():
        counts = Counter(window.item for window in windows.windows)
        long = [count for count in counts.values() if count > 1]
        if long:
            notes.append(
                f"{split}: {len(long):,} texts are longer than {length} tokens and read in {sum(long):,} windows"
            )
        if lost := len(windows.row_uids) - len(counts):
            notes.append(f"{split}: {lost:,} {empty}; nothing is learnt from them")
    card = found.card.but(
        truncated=sum(windows.truncated for windows in made.values()), notes=[*found.card.notes, *notes, *truncated]
    )
    log_card(watcher, card, str(found.task), unit=f"{found.task.units.source}s")
    return WindowCorpus(**made, card=card, task=found.task, rows=found)


def check_fast(tokenizer: Any) -> None:
    if not tokenizer.is_fast:
        raise ModelError(
            f"{type(tokenizer).__name__} does not say which characters a token stands for",
            "use a fast tokenizer: load it with AutoTokenizer and save it again, which writes tokenizer.json",
        )
