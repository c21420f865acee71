"""Labelled texts, split into train, dev and test, each example under a uid of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import SplitCard
from limbeck.core.task import TaskInfo
from limbeck.data.columns import Roles, choose
from limbeck.data.match import match
from limbeck.data.settings import DataSettings
from limbeck.data.sources.gather import gather
from limbeck.data.sources.tables import Table
from limbeck.data.splits import (
    RowSelection,
    Splits,
    card_columns,
    count_repeats,
    divide,
    in_order,
    limited,
    log_card,
    overlaps,
    whole_as_test,
)
from limbeck.data.text.labels import LabelEncoder, label_cells, label_encoder
from limbeck.data.text.rows import TextRow, select_texts
from limbeck.data.uids import repeats, text_uid

_FILLER = (
    "The morning train was late again, so half the office walked in together, shaking umbrellas and trading theories "
    "about the weather, the signals and the new timetable, while the coffee machine hummed, the first meeting waited, "
    "and somebody opened a window to let in the smell of rain, wet leaves and fresh bread from the bakery below."
)


@dataclass(frozen=True)
class Examples:
    uids: np.ndarray  # [n] int64, not negative, unique in the corpus
    texts: list[str]
    pairs: list[str]  # empty for single texts
    labels: np.ndarray  # [n] int64, [n, labels] float32, or [n] float32; -100 or 0 where there is no label
    has_label: np.ndarray  # [n] bool

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
class Corpus(Splits[Examples]):
    task: TaskInfo


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
    tables = gather(settings, data)
    given: dict[str, RowSelection[TextRow]] = {}
    columns: dict[str, Roles] = {}
    for split, table in in_order(tables.tables).items():
        columns[split] = choose(table, settings, follow=None if only_test else columns.get("train"))
        given[split] = _with_labels(select_texts(table, columns[split]), table, columns[split])
    if only_test:
        given = whole_as_test(given, "name the column with --label-column")
        columns = {"test": choose(given["test"].rows[0].table, settings)}
    roles, first = next(iter(zip(columns.values(), given.values(), strict=True)))
    encoder = label_encoder([row.label for row in first.rows], settings, first.rows[0].table, roles, known)
    division = divide(given, settings, "text", tables.named)
    found = _examples(division.parts, encoder, bool(roles.pair))
    repeated = count_repeats((part.keys, _gold(part)) for part in found.values())
    notes = [*tables.notes, *division.notes]
    found["train"] = limited(found["train"], settings.limit, lambda train: train.uids, notes)  # uids are hashes
    card = division.card(
        card_columns({split: _named(own) for split, own in columns.items()}),
        {split: split_card(encoder.task, part, division.parts[split].source) for split, part in found.items()},
        **repeated,
        notes=[*notes, *overlaps({split: part.keys for split, part in found.items()}, "text")],
    )
    guessed = ", as the labels look (--data.task overrules)" if settings.task == "auto" else ""
    log_card(watcher, card, f"{encoder.task}{guessed}", repeated="with a text seen before")
    return Corpus(**found, card=card, task=encoder.task)


def timing_texts(settings: DataSettings) -> list[tuple[str, str]]:
    """(text, pair) of every row, labelled or not; without a file, sentences of 4 to 60 words."""
    if not settings.train:
        words = _FILLER.split()
        return [(" ".join(words[: 4 + 7 * (number % 9)]), "") for number in range(64)]
    table = gather(settings).tables["train"]
    return [row.key for row in select_texts(table, choose(table, settings)).rows]


def relabel(corpus: Corpus, labels: Sequence[str], whose: str = "the teacher", ordered: bool = False) -> Corpus:
    """The corpus in the label order of a model. `ordered`: the data's own order comes from a flag."""
    task, ids = match(corpus.task, [str(label) for label in labels], whose, ordered)
    if task.kind == "regress":
        return corpus

    def moved(examples: Examples) -> Examples:
        if task.kind == "classify":
            known = examples.has_label
            new = examples.labels.copy()
            new[known] = np.asarray(ids, dtype=np.int64)[examples.labels[known]]
        else:
            new = np.zeros((len(examples), task.outputs), dtype=np.float32)
            new[:, ids] = examples.labels
        return replace(examples, labels=new)

    found = {split: moved(examples) for split, examples in corpus.splits.items()}
    cards = {split: split_card(task, found[split], card.source) for split, card in corpus.card.splits.items()}
    return Corpus(**found, card=corpus.card.model_copy(update={"splits": cards}), task=task)


def _with_labels(selection: RowSelection[TextRow], table: Table, roles: Roles) -> RowSelection[TextRow]:
    cells = label_cells(table, roles, [row.index for row in selection.rows])
    return replace(selection, rows=[replace(row, label=cell) for row, cell in zip(selection.rows, cells, strict=True)])


def _examples(parts: dict[str, RowSelection[TextRow]], encoder: LabelEncoder, pairs: bool) -> dict[str, Examples]:
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for split, part in parts.items():
        times = repeats((row.key for row in part.rows), seen)
        uids = [text_uid(*row.key, count, row.where) for row, count in zip(part.rows, times, strict=True)]
        labels, has_label = encoder.encode(part.rows)
        texts = [row.text for row in part.rows]
        second = [row.pair for row in part.rows] if pairs else []
        found[split] = Examples(np.array(uids, dtype=np.int64), texts, second, labels, has_label)
    return found


def _gold(part: Examples) -> list[object]:
    return [label if known else None for label, known in zip(part.labels.tolist(), part.has_label, strict=True)]


def _named(roles: Roles) -> dict[str, str]:
    return {"text": roles.text, "pair": roles.pair, "label": ", ".join(roles.labels)}


def split_card(task: TaskInfo, examples: Examples, source: str) -> SplitCard:
    known = examples.labels[examples.has_label]
    counts: Sequence[int] = ()
    if task.kind == "classify":
        counts = np.bincount(known, minlength=len(task.labels)).tolist()
    elif task.kind == "multilabel":
        counts = known.sum(axis=0).astype(int).tolist()
    per_class = dict(zip(task.labels, counts, strict=True)) if task.labels else {}
    return SplitCard(source=source, rows=len(examples), labelled=int(examples.has_label.sum()), per_class=per_class)
