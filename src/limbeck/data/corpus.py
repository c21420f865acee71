"""Texts and labels, split into train, dev and test, each example under a name of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from limbeck.core.errors import DataError, KnobError
from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import DataCard, SplitCard
from limbeck.core.task import TaskInfo
from limbeck.data.columns import choose
from limbeck.data.draft import Draft, draft, shares, uids
from limbeck.data.labels import Scheme, scheme_of
from limbeck.data.match import match
from limbeck.data.settings import DataSettings
from limbeck.data.sources import Splits, gather
from limbeck.data.tell_card import tell_card

_FEWEST = 10  # rows a part must be expected to get for a cut to be worth measuring on


@dataclass(frozen=True)
class Examples:
    uids: np.ndarray  # [n] int64, not negative, unique in the corpus
    texts: list[str]
    pairs: list[str]  # empty for single texts
    labels: np.ndarray  # [n] int64, [n, labels] float32, or [n] float32; -100 or 0 where not labelled
    has_label: np.ndarray  # [n] bool

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, indices: Sequence[int] | np.ndarray) -> Examples:
        chosen = np.asarray(indices, dtype=np.int64)
        return Examples(
            self.uids[chosen],
            [self.texts[i] for i in chosen],
            [self.pairs[i] for i in chosen] if self.pairs else [],
            self.labels[chosen],
            self.has_label[chosen],
        )


def joined(first: Examples, second: Examples) -> Examples:
    return Examples(
        np.concatenate([first.uids, second.uids]),
        [*first.texts, *second.texts],
        [*first.pairs, *second.pairs],
        np.concatenate([first.labels, second.labels]),
        np.concatenate([first.has_label, second.has_label]),
    )


@dataclass(frozen=True)
class Corpus:
    task: TaskInfo
    train: Examples
    dev: Examples
    test: Examples
    card: DataCard

    @property
    def splits(self) -> dict[str, Examples]:
        return {"train": self.train, "dev": self.dev, "test": self.test}


def load(
    settings: DataSettings,
    data: object | None = None,
    watcher: Watcher = Silent(),  # noqa: B008
    known: Sequence[str] = (),
) -> Corpus:
    """Reads, checks, names and splits. Says what it chose and what became of every row.

    `known` are the classes of a teacher, for data that has no labels at all."""
    given = gather(settings, data)
    drafts = _drafts(given, settings)
    train = drafts["train"]
    scheme = scheme_of(train.labels, settings, train.table, train.roles, known)
    usable, notes = _with_labels(drafts, given)
    parts = cut_missing(usable, settings)
    found = {
        split: build_examples(part, names, scheme)
        for (split, part), names in zip(parts.items(), uids(list(parts.values())), strict=True)
    }
    duplicates, conflicts = _repeats(list(found.values()))
    if 0 < settings.limit < len(found["train"]):
        notes.append(f"training on {settings.limit:,} of {len(found['train']):,} rows (--data.limit)")
        drawn = np.argsort(found["train"].uids)[: settings.limit]  # uids are hashes: their order is a fixed draw
        found["train"] = found["train"].take(np.sort(drawn))
    card = DataCard(
        source=train.table.source,
        columns=_columns(drafts),
        read=sum(len(part.table) + part.table.blank for part in drafts.values()),
        dropped=dict(sum((part.dropped for part in drafts.values()), Counter()) + _left_out(drafts, usable)),
        duplicates=duplicates,
        conflicts=conflicts,
        splits={split: split_card(scheme.task, found[split], parts[split].source) for split in found},
        notes=[*given.notes, *notes, *_overlaps(found)],
    )
    guessed = ", as the labels look (--data.task overrules)" if settings.task == "auto" else ""
    tell_card(watcher, card, f"{scheme.task}{guessed}", again="with a text seen before")
    return Corpus(scheme.task, found["train"], found["dev"], found["test"], card)


def relabel(corpus: Corpus, labels: Sequence[str], whose: str = "the teacher", ordered: bool = False) -> Corpus:
    """The corpus in the label order of a model. `ordered` says that the data's own order was given by a person."""
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
    return Corpus(task, found["train"], found["dev"], found["test"], corpus.card.but(splits=cards))


def _drafts(given: Splits, settings: DataSettings) -> dict[str, Draft]:
    roles = choose(given.tables["train"], settings)
    chosen = {
        split: roles if split == "train" else choose(table, settings, follow=roles)
        for split, table in given.tables.items()
    }
    return {split: draft(given.tables[split], chosen[split]) for split in ("train", "dev", "test") if split in chosen}


def _with_labels(drafts: dict[str, Draft], given: Splits) -> tuple[dict[str, Draft], list[str]]:
    """Leaves out dev and test splits nothing can be measured on; GLUE hides the labels of its test files."""
    if not drafts["train"].labels.given:
        return drafts, []
    bare = [split for split, part in drafts.items() if not part.labels.given]
    for split in bare:
        if split in given.named:
            raise DataError(
                f"{drafts[split].source} has no labels, so nothing can be measured on it",
                f"give a labelled file, or leave out --data.{split} and a part of train is cut off for it",
            )
    notes = [f"{drafts[split].source} has no labels and is left out; {split} is cut from train" for split in bare]
    return {split: part for split, part in drafts.items() if split not in bare}, notes


def _left_out(drafts: dict[str, Draft], usable: dict[str, Draft]) -> Counter[str]:
    return Counter({f"{split} without labels": len(part) for split, part in drafts.items() if split not in usable})


def cut_missing(drafts: dict[str, Draft], settings: DataSettings) -> dict[str, Draft]:
    """Cuts the missing splits from train. A text keeps its split whatever else the file holds."""
    missing = [split for split in ("dev", "test") if split not in drafts]
    if not missing:
        return drafts
    if settings.dev_share + settings.test_share >= 1:
        raise KnobError(
            f"dev_share {settings.dev_share:g} and test_share {settings.test_share:g} leave nothing for train",
            "make their sum less than 1",
        )
    train, place = drafts["train"], shares(drafts["train"])
    test, dev = settings.test_share, settings.test_share + settings.dev_share
    share = {"dev": settings.dev_share, "test": settings.test_share}
    inside = {"test": place < test, "dev": (place >= test) & (place < dev)}
    rest = ~np.logical_or.reduce([inside[split] for split in missing])
    source = train.source
    cut = {split: train.take(np.flatnonzero(inside[split]), _cut_from(source, share[split])) for split in missing}
    cut["train"] = train.take(np.flatnonzero(rest), source)
    for split in (*missing, "train"):
        expected = len(train) * share.get(split, 1.0)
        if expected < _FEWEST or len(cut[split]) < _FEWEST // 2:
            raise DataError(
                f"{source} has {len(train):,} usable rows: too few to cut {' and '.join(missing)} from "
                f"({split} would get {len(cut[split])})",
                "give more rows, a larger share (--data.dev-share, --data.test-share), or files with --data.dev and "
                "--data.test",
            )
    both = {**drafts, **cut}
    return {split: both[split] for split in ("train", "dev", "test")}


def _cut_from(source: str, share: float) -> str:
    return f"cut from {source} by a hash of the text ({share:.0%})"


def build_examples(part: Draft, names: np.ndarray, scheme: Scheme) -> Examples:
    labels, has_label = scheme.encode(part.labels)
    texts = [text for text, _ in part.keys]
    return Examples(names, texts, [pair for _, pair in part.keys] if part.roles.pair else [], labels, has_label)


def _keys(examples: Examples) -> list[tuple[str, str]]:
    return list(zip(examples.texts, examples.pairs or [""] * len(examples), strict=True))


def _repeats(parts: Sequence[Examples]) -> tuple[int, int]:
    """Rows whose text came before in the same split, and how many of them have another label than the first."""
    duplicates = conflicts = 0
    for part in parts:
        keys = _keys(part)
        duplicates += len(keys) - len(set(keys))
        first: dict[tuple[str, str], int] = {}
        for row in np.flatnonzero(part.has_label).tolist():
            before = first.setdefault(keys[row], row)
            conflicts += before != row and not np.array_equal(part.labels[before], part.labels[row])
    return duplicates, int(conflicts)


def _overlaps(found: dict[str, Examples]) -> list[str]:
    seen = set(_keys(found["train"]))
    counts = {split: sum(key in seen for key in _keys(found[split])) for split in ("dev", "test")}
    return [
        f"{count:,} {split} {'rows also occur' if count > 1 else 'row also occurs'} in train"
        for split, count in counts.items()
        if count
    ]


def _columns(drafts: dict[str, Draft]) -> dict[str, str]:
    """Role → column; where a split has another name for it, that too."""
    chosen: dict[str, str] = {}
    for role in ("text", "pair", "label"):
        names = {split: _column(part, role) for split, part in drafts.items()}
        others = [f"{split}: {name or 'none'}" for split, name in names.items() if name != names["train"]]
        if names["train"]:
            chosen[role] = names["train"] + (f" ({', '.join(others)})" if others else "")
    return chosen


def _column(part: Draft, role: str) -> str:
    return ", ".join(part.roles.labels) if role == "label" else getattr(part.roles, role)


def split_card(task: TaskInfo, examples: Examples, source: str) -> SplitCard:
    known = examples.labels[examples.has_label]
    counts: Sequence[int] = ()
    if task.kind == "classify":
        counts = np.bincount(known, minlength=len(task.labels)).tolist()
    elif task.kind == "multilabel":
        counts = known.sum(axis=0).astype(int).tolist()
    per_class = dict(zip(task.labels, counts, strict=True)) if task.labels else {}
    return SplitCard(source=source, rows=len(examples), labelled=int(examples.has_label.sum()), per_class=per_class)
