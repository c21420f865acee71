"""Labelled texts and pairs of texts: in train, dev and test, each under a uid of its own, and as token ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from limbeck.core.errors import DataError
from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import SplitCard
from limbeck.core.task import TaskInfo
from limbeck.data.columns import NO_LABELS, Roles, choose
from limbeck.data.joins import part_lengths
from limbeck.data.settings import DataSettings
from limbeck.data.sources.gather import gather
from limbeck.data.sources.new_rows import read_new
from limbeck.data.sources.tables import Table, texts_of
from limbeck.data.splits import (
    LabelledSplits,
    RowSelection,
    card_columns,
    divide,
    draw_split,
    in_order,
    log_card,
    measured_split,
)
from limbeck.data.text.answers import AnswerEncoder, Answers, answer_cells, encoder_of
from limbeck.data.text.labels import Cell, label_cells, match
from limbeck.data.uids import repeats, text_split_hash, text_uid

CHUNK = 2000  # texts handed to a tokenizer at once: bounds the memory its Python lists take
_FILLER = (
    "The morning train was late again, so half the office walked in together, shaking umbrellas and trading theories "
    "about the weather, the signals and the new timetable, while the coffee machine hummed, the first meeting waited, "
    "and somebody opened a window to let in the smell of rain, wet leaves and fresh bread from the bakery below."
)


@dataclass(frozen=True, slots=True)
class TextRow:
    """A text or a pair of texts, as a table holds it."""

    text: str
    pair: str
    where: str
    split_hash: float
    label: Cell = None
    has_label: bool = False
    answer: Any = None  # a teacher's, where the table has some

    @classmethod
    def of(cls, table: Table, index: int, text: str, pair: str = "", label: Cell = None, answer: Any = None) -> Self:
        where = table.where(index)
        return cls(text, pair, where, text_split_hash(text, pair, where), label, label is not None, answer)

    @property
    def key(self) -> tuple[str, str]:
        return self.text, self.pair


def select_texts(table: Table, roles: Roles) -> RowSelection[TextRow]:
    """The rows whose texts are not empty, with their labels."""
    texts, pairs = (
        texts_of(table, name, "choose the text column with --text-column") if name else [""] * len(table)
        for name in (roles.text, roles.pair)
    )
    full = [row for row in range(len(table)) if texts[row].strip() and (not roles.pair or pairs[row].strip())]
    if not full:
        raise DataError(
            f"{table.source}: every row has an empty text in column '{roles.text}'", "choose another with --text-column"
        )
    labels = label_cells(table, roles, full) if roles.labels else [None] * len(full)
    answers = answer_cells(table, roles.teacher, full) if roles.teacher else [None] * len(full)
    known = zip(full, labels, answers, strict=True)
    rows = [TextRow.of(table, row, texts[row], pairs[row], label, answer) for row, label, answer in known]
    dropped = {"empty text": len(table) - len(rows)}
    if roles.teacher:
        rows = [row for row in rows if row.has_label or row.answer is not None]
        dropped["neither a label nor a teacher's answer"] = len(full) - len(rows)
    return RowSelection.of(table, rows, dropped)


@dataclass(frozen=True)
class Examples:
    uids: np.ndarray  # [n] int64, not negative, unique in the corpus
    texts: list[str]
    pairs: list[str]  # empty for single texts
    labels: np.ndarray  # [n] int64, [n, labels] float32, or [n] float32; -100 or 0 where there is no label
    has_label: np.ndarray  # [n] bool
    answered: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=bool))  # [n] by the teacher; empty: all are

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def keys(self) -> list[tuple[str, str]]:
        """(text, pair) of each; the pair of a single text is empty."""
        return list(zip(self.texts, self.pairs or [""] * len(self), strict=True))

    def take(self, indices: Sequence[int] | np.ndarray) -> Examples:
        chosen = np.asarray(indices, dtype=np.int64)
        return Examples(
            self.uids[chosen],
            [self.texts[i] for i in chosen],
            [self.pairs[i] for i in chosen] if self.pairs else [],
            self.labels[chosen],
            self.has_label[chosen],
            self.answered[chosen] if len(self.answered) else self.answered,
        )


def concatenate(first: Examples, second: Examples) -> Examples:
    return Examples(
        np.concatenate([first.uids, second.uids]),
        [*first.texts, *second.texts],
        [*first.pairs, *second.pairs],
        np.concatenate([first.labels, second.labels]),
        np.concatenate([first.has_label, second.has_label]),
    )


@dataclass(frozen=True)
class Corpus(LabelledSplits[Examples]):
    """Labelled texts."""

    answers: Answers | None = None  # of a teacher, where they stand beside the texts


C = TypeVar("C", bound=LabelledSplits[Any])


def read_texts(
    settings: DataSettings,
    data: object | None = None,
    watcher: Watcher = Silent(),  # noqa: B008
    known: Sequence[str] = (),
    only_test: bool = False,
) -> Corpus:
    """Reads, checks and splits; logs what it chose and what became of every row.

    `known` are the classes of a teacher, for data without labels. With `only_test` the whole file is the test split,
    and train and dev are empty."""
    source = gather(settings, data)
    tables = in_order(source.tables)
    columns: dict[str, Roles] = {}
    for split, table in tables.items():
        columns[split] = choose(table, settings, follow=None if only_test else columns.get("train"))
    given = {split: select_texts(table, columns[split]) for split, table in tables.items()}
    first = "train"
    if only_test:
        first = measured_split(given, "name the column with --label-column")
        given, columns = {"test": given[first]}, {"test": columns[first]}
    roles, labels = next((columns[split], [row.label for row in part.rows]) for split, part in given.items())
    answers = [row.answer for row in next(iter(given.values())).rows]
    encoder = encoder_of(labels, answers, settings, tables[first], roles, known)
    division = divide(given, settings, "text", source.named)
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for split, part in division.parts.items():
        times = repeats([row.key for row in part.rows], seen)
        uids = [text_uid(*row.key, count, row.where) for row, count in zip(part.rows, times, strict=True)]
        found[split] = Examples(
            np.array(uids, dtype=np.int64),
            [row.text for row in part.rows],
            [row.pair for row in part.rows] if roles.pair else [],
            *encoder.encode(part.rows),
        )
    taught = _answers(division.parts, found, AnswerEncoder.of(encoder, settings, tables[first], roles))
    if taught:
        found = {split: _answered(part, taught) for split, part in found.items()}
    keys = {split: part.keys for split, part in found.items()}
    gold = {split: _gold(part) for split, part in found.items()}
    notes = [*source.notes, *division.notes]
    for split, examples in found.items():
        if drawn := draw_split(split, examples.uids, settings, notes):  # uids are hashes
            found[split] = examples.take(drawn)
    if taught:
        notes.append(_answers_note(found, taught))
    if note := part_lengths(*(found[split].keys for split in ("train", "test"))) if len(found) > 1 else "":
        notes.append(note)
    named = {
        split: {
            "text": own.text,
            "pair": own.pair,
            "label": ", ".join(own.labels),
            "teacher's answer": ", ".join(own.teacher),
        }
        for split, own in columns.items()
    }
    card = division.card(
        card_columns(named),
        {split: split_card(encoder.task, part, division.parts[split].source) for split, part in found.items()},
        "text",
        keys,
        labels=gold,
        groups={split: part.keys for split, part in found.items()},
        notes=notes,
    )
    guessed = ", as the labels look (--data.task overrules)" if settings.task == "auto" else ""
    log_card(watcher, card, f"{encoder.task}{guessed}", repeated="with a text seen before")
    return Corpus(**found, card=card, task=encoder.task, answers=taught)


def _answers(
    parts: Mapping[str, RowSelection[TextRow]], found: Mapping[str, Examples], encoder: AnswerEncoder
) -> Answers | None:
    """The teacher's, of every split; None where there is no such column."""
    if not encoder.columns:
        return None
    logits = encoder.encode([row for part in parts.values() for row in part.rows])  # all at once: errors list all
    taught = Answers(", ".join(encoder.columns), np.concatenate([found[split].uids for split in parts]), logits)
    if not taught.answered[np.isin(taught.uids, found["train"].uids)].any():
        raise DataError(
            f"{parts['train'].source}: no training row has an answer in the teacher's column '{taught.column}'",
            "choose another with --teacher-column, or train on the labels with `limbeck train`",
        )
    return taught


def _answered(part: Examples, taught: Answers) -> Examples:
    """With the mark of the rows that the teacher has an answer to, where that is not all of them."""
    answered = np.isin(part.uids, taught.uids[taught.answered])
    return part if answered.all() else replace(part, answered=answered)


def _answers_note(found: Mapping[str, Examples], taught: Answers) -> str:
    counts = {split: (int(part.answered.sum()) if len(part.answered) else len(part)) for split, part in found.items()}
    told = ", ".join(f"{counts[split]:,} of {len(part):,} rows of {split}" for split, part in found.items())
    lacking = len(found["train"]) - counts["train"]
    rest = f"; {lacking:,} training rows without one are learnt from their labels alone" if lacking else ""
    return f"the teacher's answers are those in column '{taught.column}': {told} have one{rest}"


def new_texts(settings: DataSettings, data: object) -> tuple[Table, list[tuple[str, ...]]]:
    """A table of texts or pairs to predict, which needs no labels, and what a model reads of each row."""
    settings = settings.but(label_column=NO_LABELS)
    table = read_new(settings, data, "text", ("text1", "text2"))
    if len(table.columns) == 1 and not settings.text_column:
        settings = settings.but(text_column=next(iter(table.columns)))
    roles = choose(table, settings)
    columns = [texts_of(table, name, "pass --text-column NAME") for name in (roles.text, roles.pair) if name]
    return table, list(zip(*columns, strict=True))


def timing_texts(settings: DataSettings) -> list[tuple[str, str]]:
    """(text, pair) of every row, labelled or not; without a file, sentences of 4 to 60 words."""
    if not settings.train:
        words = _FILLER.split()
        return [(" ".join(words[: 4 + 7 * (number % 9)]), "") for number in range(64)]
    table = gather(settings).tables["train"]
    return [row.key for row in select_texts(table, replace(choose(table, settings), labels=())).rows]


def relabel(corpus: C, labels: Sequence[str], whose: str = "the teacher", ordered: bool = False) -> C:
    """The corpus in the label order of a model. `ordered`: the data's own order comes from a flag."""
    task, ids = match(corpus.task, [str(label) for label in labels], whose, ordered)
    if task.kind == "regress":
        return corpus
    found: dict[str, Any] = {}
    for split, examples in corpus.splits.items():
        if task.single_label:
            known, new = examples.has_label, examples.labels.copy()
            new[known] = np.asarray(ids, dtype=np.int64)[examples.labels[known]]
        else:
            new = np.zeros((len(examples), task.outputs), dtype=np.float32)
            new[:, ids] = examples.labels
        found[split] = replace(examples, labels=new)
    cards = {split: split_card(task, found[split], card.source) for split, card in corpus.card.splits.items()}
    return replace(corpus, **found, card=corpus.card.but(splits=cards), task=task)


def _gold(part: Examples) -> list[object]:
    return [label if known else None for label, known in zip(part.labels.tolist(), part.has_label, strict=True)]


def split_card(task: TaskInfo, examples: Any, source: str) -> SplitCard:
    """Of texts or images."""
    known = examples.labels[examples.has_label]
    counts: Sequence[int] = ()
    if task.single_label:
        counts = np.bincount(known, minlength=len(task.labels)).tolist()
    elif task.kind == "multilabel":
        counts = known.sum(axis=0).astype(int).tolist()
    per_class = dict(zip(task.labels, counts, strict=True)) if task.labels else {}
    return SplitCard(source=source, rows=len(examples), labelled=int(examples.has_label.sum()), per_class=per_class)


class Encoded:
    """A map-style dataset over flat arrays: row i has the tokens from offsets[i] to offsets[i + 1]."""

    def __init__(
        self, examples: Examples, columns: Mapping[str, np.ndarray], offsets: np.ndarray, truncated: int = 0
    ) -> None:
        self.examples = examples
        self.uids, self.labels, self.has_label = examples.uids, examples.labels, examples.has_label
        self.truncated = truncated
        self.lengths: list[int] = np.diff(offsets).tolist()
        self._columns = columns
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, indices: Sequence[int] | np.ndarray) -> Encoded:
        """Some of the rows; how many of them were cut is not counted again."""
        chosen = np.asarray(indices, dtype=np.int64)
        flat, offsets = spans(self._offsets[chosen], np.diff(self._offsets)[chosen])
        columns = {name: tokens[flat] for name, tokens in self._columns.items()}
        return Encoded(self.examples.take(chosen), columns, offsets)

    def with_labels(self, labels: np.ndarray) -> Encoded:
        """The same rows, all with a label."""
        examples = replace(self.examples, labels=labels, has_label=np.ones(len(self), dtype=bool))
        return Encoded(examples, self._columns, self._offsets, self.truncated)

    def __getitem__(self, index: int) -> dict[str, Any]:
        start, stop = self._offsets[index], self._offsets[index + 1]
        row = {
            **{name: tokens[start:stop].tolist() for name, tokens in self._columns.items()},
            "attention_mask": [1] * int(stop - start),
            "uids": int(self.uids[index]),
            "labels": self.labels[index].tolist(),
            "has_label": bool(self.has_label[index]),
        }
        if len(self.examples.answered):
            row["predicted"] = bool(self.examples.answered[index])
        return row

    @property
    def answered(self) -> np.ndarray:
        """[n] bool: the rows that a teacher has an answer to."""
        answered = self.examples.answered
        return answered if len(answered) else np.ones(len(self), dtype=bool)


def encode(examples: Examples, tokenizer: Any, max_length: int) -> Encoded:
    """Tokens of every text, at most max_length of them, or model_max_length if that is less."""
    longest = min(max_length, tokenizer.model_max_length)
    found, truncated = tokenise(tokenizer, longest, examples.texts, examples.pairs)
    columns = {name: flatten(rows, np.int32 if name == "input_ids" else np.int8)[0] for name, rows in found.items()}
    return Encoded(examples, columns, np.cumsum([0, *map(len, found["input_ids"])]), len(truncated))


def tokenise(
    tokenizer: Any, longest: int, texts: Sequence[str], pairs: Sequence[str] = (), *, target: bool = False
) -> tuple[dict[str, list[np.ndarray]], set[int]]:
    """Column → the tokens of each row, and which rows are truncated. `target`: as what a seq2seq model writes.

    Only these are tokenised twice: the tokenizer knows what must end them."""

    def tokens(rows: Sequence[int], **how: Any) -> dict[str, list[np.ndarray]]:
        some = [texts[row] for row in rows]
        inputs = {"text_target": some} if target else {"text": some}
        if pairs:
            inputs["text_pair"] = [pairs[row] for row in rows]
        # not padded, whatever the tokenizer's own file says; the mask of unpadded rows is all ones
        found = tokenizer(**inputs, padding=False, return_attention_mask=False, verbose=False, **how)
        names = [name for name in ("input_ids", "token_type_ids") if name in found]
        return {name: [np.array(row, dtype=np.int32) for row in found[name]] for name in names}

    columns: dict[str, list[np.ndarray]] = {"input_ids": []}
    for start in range(0, len(texts), CHUNK):
        for name, rows in tokens(range(start, min(start + CHUNK, len(texts))), truncation=False).items():
            columns.setdefault(name, []).extend(rows)
    cut = [row for row, ids in enumerate(columns["input_ids"]) if len(ids) > longest]
    for start in range(0, len(cut), CHUNK):
        some = cut[start : start + CHUNK]
        for name, rows in tokens(some, truncation=True, max_length=longest).items():
            for row, ids in zip(some, rows, strict=True):
                columns[name][row] = ids
    return columns, set(cut)


def flatten(
    rows: Sequence[Sequence[int]] | Sequence[np.ndarray], dtype: DTypeLike = np.int32
) -> tuple[np.ndarray, np.ndarray]:
    """[values], and [rows + 1] offsets: row i holds the values from offsets[i] to offsets[i + 1]."""
    parts = (np.asarray(row, dtype) for row in rows)
    return np.concatenate([np.empty(0, dtype), *parts]), np.cumsum([0, *map(len, rows)])


def spans(starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The indices of all values of these spans, and the offsets that the spans have among them."""
    offsets = np.append(0, np.cumsum(lengths))
    return np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1]), offsets
