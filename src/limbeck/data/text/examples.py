"""Labelled texts and pairs of texts: in train, dev and test, each under a uid of its own, and as token ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from limbeck.core.errors import DataError
from limbeck.core.fingerprint import digest, tokenizer_fingerprint
from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import SplitCard
from limbeck.core.task import TaskInfo
from limbeck.data.columns import NO_LABELS, Roles, choose
from limbeck.data.joins import part_lengths
from limbeck.data.settings import DataSettings
from limbeck.data.sources.gather import Tables, gather
from limbeck.data.sources.new_rows import read_new
from limbeck.data.sources.tables import Table, texts_of
from limbeck.data.sources.unlabelled import held_out_tables, refuse_unlabelled, stands_alone
from limbeck.data.splits import (
    Division,
    LabelledSplits,
    RowSelection,
    card_columns,
    divide,
    draw_split,
    in_order,
    log_card,
    measured_split,
)
from limbeck.data.text.answers import AnswerEncoder, Answers, encoder_of
from limbeck.data.text.labels import LabelEncoder, match
from limbeck.data.text.rows import TextRow, select_texts
from limbeck.data.text.stored import Rows, StoredTexts, TextPairs, as_bytes, check_room, stored
from limbeck.data.text.transfer import read_transfer
from limbeck.data.transfer import Transfer, with_sources
from limbeck.data.uids import repeats, text_uid

Key = tuple[str, str]  # a text and its pair
CUT = "cut"  # the column that marks truncated rows
CHUNK = 2000  # texts handed to a tokenizer at once: bounds the memory its Python lists take
_FILLER = (
    "The morning train was late again, so half the office walked in together, shaking umbrellas and trading theories "
    "about the weather, the signals and the new timetable, while the coffee machine hummed, the first meeting waited, "
    "and somebody opened a window to let in the smell of rain, wet leaves and fresh bread from the bakery below."
)


@dataclass(frozen=True)
class Examples:
    uids: np.ndarray  # [n] int64, not negative, unique in the corpus
    texts: Sequence[str]  # a list, or on disk
    pairs: Sequence[str]  # empty for single texts
    labels: np.ndarray  # [n] int64, [n, labels] float32, or [n] float32; -100 or 0 where there is no label
    has_label: np.ndarray  # [n] bool
    answered: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=bool))  # [n] by the teacher; empty: all are
    folder: Path | None = None  # where the texts lie, if not in memory; their tokens are put beside them

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def keys(self) -> Sequence[Key]:
        """(text, pair) of each; the pair of a single text is empty."""
        if self.folder:
            return TextPairs(self.texts, self.pairs)
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
    place: Path | None = None,
) -> Corpus:
    """Reads, checks and splits; logs what it chose and what became of every row.

    `known` are the classes of a teacher, for data without labels. With `only_test` the whole file is the test split,
    and train and dev are empty. Training texts of --unlabelled lie in the folder `place`, where one is given."""
    if only_test:
        refuse_unlabelled(settings)
    found = _read(settings, data, known, only_test)
    division, encoder, notes = found.division, found.encoder, [*found.source.notes, *found.division.notes]
    seen: Counter[Key] = Counter()
    parts = {split: _examples(part.rows, found, seen) for split, part in division.parts.items()}
    if taught := _answers(division.parts, parts, found.teacher):
        parts = {split: _answered(part, taught) for split, part in parts.items()}
    keys = {split: part.keys for split, part in parts.items()}
    gold = {split: _gold(part) for split, part in parts.items()}
    for split, examples in parts.items():
        if drawn := draw_split(split, examples.uids, settings, notes):  # uids are hashes
            parts[split] = examples.take(drawn)
    if taught:
        notes.append(_answers_note(parts, taught))
    if note := part_lengths(*(parts[split].keys for split in ("train", "test"))) if len(parts) > 1 else "":
        notes.append(note)
    groups, added = {split: part.keys for split, part in parts.items()}, found.transfer
    if added is None and settings.unlabelled:  # beside labelled rows
        known_texts: dict[str, Sequence[Key]] = {"test": keys["test"], "dev": keys["dev"], "train": groups["train"]}
        added = read_transfer(settings, found.roles, known_texts)
        notes += added.notes
        parts["train"] = concatenate(parts["train"], _examples(added.rows, found, Counter()))
    if added:
        division = with_sources(division, added, alone=found.transfer is not None)
    if added and place:
        parts["train"] = _on_disk(parts["train"], place)
    cards = {split: split_card(encoder.task, part, division.parts[split].source) for split, part in parts.items()}
    named = {
        split: {
            "text": own.text,
            "pair": own.pair,
            "label": ", ".join(own.labels),
            "teacher's answer": ", ".join(own.teacher),
        }
        for split, own in found.columns.items()
    }
    card = division.card(card_columns(named), cards, "text", keys, labels=gold, groups=groups, notes=notes)
    guessed = ", as the labels look (--data.task overrules)" if settings.task == "auto" else ""
    log_card(watcher, card, f"{encoder.task}{guessed}", repeated="with a text seen before")
    return Corpus(**parts, card=card, task=encoder.task, answers=taught)


@dataclass(frozen=True)
class _Read:
    """The rows of all splits, and how labels and a teacher's answers are read."""

    source: Tables
    division: Division[TextRow]
    encoder: LabelEncoder
    teacher: AnswerEncoder
    columns: Mapping[str, Roles]
    transfer: Transfer[TextRow] | None = None  # texts without labels that stand for the whole of train

    @property
    def roles(self) -> Roles:
        return next(iter(self.columns.values()))


def _read(settings: DataSettings, data: object, known: Sequence[str], only_test: bool) -> _Read:
    alone = stands_alone(settings, data)
    source = held_out_tables(settings) if alone else gather(settings, data)
    tables = in_order(source.tables)
    columns: dict[str, Roles] = {}
    for split, table in tables.items():
        columns[split] = choose(table, settings, follow=None if only_test else columns.get("train"))
    given = {split: select_texts(table, columns[split]) for split, table in tables.items()}
    first, transfer = "train", None
    if alone:
        held_out = {str(split): [row.key for row in given[split].rows] for split in reversed(given)}
        transfer = read_transfer(settings, next(iter(columns.values()), None), held_out)
        columns = {"train": Roles(transfer.columns["text"], transfer.columns["pair"]), **columns}
        source = replace(source, notes=(*source.notes, *transfer.notes))
        given = {"train": transfer.selection(), **given}
    if only_test:
        first = measured_split(given, "name the column with --label-column")
        given, columns = {"test": given[first]}, {"test": columns[first]}
    roles, labels = next((columns[split], [row.label for row in part.rows]) for split, part in given.items())
    table = tables.get(first) or Table(given["train"].source, {roles.text: []})
    answers = [row.answer for row in next(iter(given.values())).rows]
    encoder = encoder_of(labels, answers, settings, table, roles, known)
    teacher = AnswerEncoder.of(encoder, settings, table, roles)
    return _Read(source, divide(given, settings, "text", source.named), encoder, teacher, columns, transfer)


def _examples(rows: Sequence[TextRow], how: _Read, seen: Counter[Key]) -> Examples:
    times = repeats([row.key for row in rows], seen)
    uids = [text_uid(*row.key, count, row.where) for row, count in zip(rows, times, strict=True)]
    return Examples(
        np.array(uids, dtype=np.int64),
        [row.text for row in rows],
        [row.pair for row in rows] if how.roles.pair else [],
        *how.encoder.encode(rows),
    )


def _on_disk(examples: Examples, place: Path) -> Examples:
    """The same with its texts in a folder."""
    pairs = bool(examples.pairs)
    dtypes = {"text": "uint8", **({"pair": "uint8"} if pairs else {})}
    columns = [examples.texts, examples.pairs] if pairs else [examples.texts]

    def rows() -> Rows:
        room = sum(4.0 * len(text) for column in columns for text in column)
        check_room(place, room, "the unlabelled texts")
        for cells in zip(*columns, strict=True):
            yield {name: as_bytes(cell) for name, cell in zip(dtypes, cells, strict=True)}

    folder = place / f"texts-{digest([examples.uids])}"
    found = stored(folder, dtypes, rows)
    return replace(
        examples,
        texts=StoredTexts(found["text"]),
        pairs=StoredTexts(found["pair"]) if pairs else [],
        folder=place,
    )


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
    if examples.folder:
        return _encode_on_disk(examples, examples.folder, tokenizer, longest)
    found, truncated = tokenise(tokenizer, longest, examples.texts, examples.pairs)
    columns = {name: flatten(rows, np.int32 if name == "input_ids" else np.int8)[0] for name, rows in found.items()}
    return Encoded(examples, columns, np.cumsum([0, *map(len, found["input_ids"])]), len(truncated))


def _encode_on_disk(examples: Examples, place: Path, tokenizer: Any, longest: int) -> Encoded:
    """The same with the tokens in a folder beside the texts."""
    names = _token_names(tokenizer, bool(examples.pairs))
    dtypes = {**{name: "int32" if name == "input_ids" else "int8" for name in names}, CUT: "int8"}

    def rows() -> Rows:
        room = sum(min(len(text) + len(pair) + 3, longest) for text, pair in examples.keys)
        check_room(place, (4.0 + len(names) - 1) * room, "the tokens of the unlabelled texts")
        for start in range(0, len(examples), CHUNK):
            stop = min(start + CHUNK, len(examples))
            found, cut = tokenise(tokenizer, longest, examples.texts[start:stop], examples.pairs[start:stop])
            for row in range(stop - start):
                yield {**{name: found[name][row] for name in names}, CUT: np.ones(int(row in cut), dtype=np.int8)}

    mark = digest([examples.uids, tokenizer_fingerprint(tokenizer), str(longest)])
    columns = stored(place / f"tokens-{mark}", dtypes, rows)
    truncated = len(columns.pop(CUT).values)
    offsets = columns["input_ids"].offsets
    return Encoded(examples, {name: flat.values for name, flat in columns.items()}, offsets, truncated)


def _token_names(tokenizer: Any, pairs: bool) -> list[str]:
    """The columns that the tokenizer gives of each text."""
    found, _ = tokenise(tokenizer, 8, ["a"], ["a"] if pairs else [])
    return list(found)


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
