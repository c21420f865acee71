"""A corpus of sentences to tag or questions to answer: read, named, split, and cut into windows of tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from limbeck.core.errors import DataError
from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import DataCard, SplitCard
from limbeck.core.task import ENDS, TaskInfo, WindowKind
from limbeck.data.answer_windows import answer_windows, room_for
from limbeck.data.answers import Question, questions_of
from limbeck.data.match import match
from limbeck.data.place_sources import gather_places
from limbeck.data.place_split import Item, Part, cut_missing, drawn, overlaps, repeats, with_labels
from limbeck.data.places import PlaceRows, check_fast, hashed
from limbeck.data.settings import DataSettings
from limbeck.data.sources import Splits
from limbeck.data.tag_windows import tag_windows
from limbeck.data.tags import Sentence, alphabet, check_known, dialect, is_plain, sentences_of, tag_names
from limbeck.data.tell_card import tell_card
from limbeck.data.window_settings import WindowSettings

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Places:
    """What was read, before any tokenizer."""

    task: TaskInfo
    parts: dict[str, Part]
    card: DataCard
    nullable: bool = False  # questions may be without an answer


@dataclass(frozen=True)
class PlaceCorpus:
    task: TaskInfo
    train: PlaceRows
    dev: PlaceRows
    test: PlaceRows
    places: Places
    card: DataCard  # of its splits, rows counts sentences or questions

    @property
    def splits(self) -> dict[str, PlaceRows]:
        return {"train": self.train, "dev": self.dev, "test": self.test}

    def items(self, split: str) -> Sequence[Item]:
        return self.places.parts[split].items

    def answered(self, split: str, answers: Sequence[Any]) -> PlaceCorpus:
        """The same with these for gold in a split: tags of its words, or an answer. Its rows stay without labels."""
        part = self.places.parts[split]
        items = [_with_gold(item, answer) for item, answer in zip(part.items, answers, strict=True)]
        parts = {**self.places.parts, split: replace(part, items=items)}
        return replace(self, places=replace(self.places, parts=parts))

    def texts(self, split: str) -> list[tuple[str, str]]:
        return list(map(texts_of, self.items(split)))


def _with_gold(item: Item, answer: Any) -> Item:
    if isinstance(item, Question):
        return replace(item, answers=(answer,) if answer else (), answered=True)
    return replace(item, tags=tuple(answer))


def texts_of(item: Item) -> tuple[str, str]:
    """What a model reads of it: a sentence alone, a question and its text."""
    return (item.question, item.context) if isinstance(item, Question) else (item.text, "")


def load_places(
    settings: DataSettings,
    places: WindowSettings,
    kind: WindowKind,
    tokenizer: Any,
    data: object | None = None,
    watcher: Watcher = Silent(),  # noqa: B008
    known_labels: Sequence[str] = (),
) -> PlaceCorpus:
    """Reads, splits and cuts into windows. Says what it chose and what became of every row.

    `known_labels` are the tags of a model, in its order."""
    check_fast(tokenizer)
    corpus = encode_places(read_places(settings, places, kind, data, known_labels), tokenizer, settings, places)
    tell_places(watcher, corpus)
    return corpus


def read_places(
    settings: DataSettings,
    places: WindowSettings,
    kind: WindowKind,
    data: object | None = None,
    known_labels: Sequence[str] = (),
) -> Places:
    given = gather_places(settings, places, kind, data)
    parts, columns, remarks = parts_of(given, settings, places, kind)
    read = {split: part for split, part in parts.items() if part.items}
    if "train" not in read:
        raise DataError(f"{given.tables['train'].source}: no row of it can be used", _fates(parts["train"].dropped))
    usable, notes = with_labels(read, given.named)
    cut = cut_missing(usable, settings)
    if kind == "tag":
        task, cut, more = settled_tags(cut, given, columns.get("tags", ""), settings, known_labels)
        notes += more
    else:
        task = TaskInfo(kind="answer", labels=ENDS)
    if 0 < settings.limit < len(cut["train"].items):
        notes.append(f"training on {settings.limit:,} of {len(cut['train'].items):,} rows (--data.limit)")
        cut["train"] = drawn(cut["train"], settings.limit)
    duplicates, conflicts = repeats(cut)
    left_out = Counter(
        {f"{split} without labels": len(part.items) for split, part in read.items() if split not in usable}
    )
    card = DataCard(
        source=given.tables["train"].source,
        columns=columns,
        read=sum(len(table) + table.blank for table in given.tables.values()),
        dropped=dict(sum((part.dropped for part in parts.values()), left_out)),
        duplicates=duplicates,
        conflicts=conflicts,
        splits={split: split_card(cut[split], task) for split in SPLITS},
        notes=[*given.notes, *notes, *(f"{count:,} {what}" for what, count in (+remarks).items()), *overlaps(cut)],
    )
    return Places(task, cut, card, is_nullable(cut.values()))


def encode_places(found: Places, tokenizer: Any, settings: DataSettings, places: WindowSettings) -> PlaceCorpus:
    check_fast(tokenizer)
    length = min(settings.max_length, tokenizer.model_max_length)
    room = room_for(length, places.longest_question, places.stride, tokenizer)
    seen: Counter[tuple[str, ...]] = Counter()
    rows: dict[str, PlaceRows] = {}
    for split in SPLITS:
        items = found.parts[split].items
        twins = [_twin(seen, item.key) for item in items]
        names = [hashed("item", [str(twin), *item.key], item.where) for twin, item in zip(twins, items, strict=True)]
        short = 0
        if found.task.kind == "tag":
            stride = min(places.stride, length // 2 - tokenizer.num_special_tokens_to_add())
            windows = tag_windows(_only(items, Sentence), twins, tokenizer, found.task, length, max(stride, 0))
        else:
            windows, short = answer_windows(_only(items, Question), twins, tokenizer, room, found.nullable)
        rows[split] = PlaceRows(windows, np.array(names, dtype=np.int64), short)
    notes = [*found.card.notes, *_window_notes(rows, found.task, length)]
    if cut := sum(part.truncated for part in rows.values()):
        notes.append(f"{cut:,} questions are cut to {room.question} tokens")
    if found.task.kind == "answer" and (room.question, room.stride) != (places.longest_question, places.stride):
        notes.append(
            f"of {length} tokens a question gets {room.question} at most and windows share {room.stride}; "
            "more needs a larger --data.max-length"
        )
    card = found.card.but(truncated=cut, notes=notes)
    return PlaceCorpus(found.task, rows["train"], rows["dev"], rows["test"], found, card)


def _only(items: Sequence[Item], kind: type[Any]) -> list[Any]:
    return [item for item in items if isinstance(item, kind)]


def _twin(seen: Counter[tuple[str, ...]], key: tuple[str, ...]) -> int:
    """How many of this key came before, in this split or an earlier one."""
    seen[key] += 1
    return seen[key] - 1


def parts_of(
    given: Splits, settings: DataSettings, places: WindowSettings, kind: WindowKind
) -> tuple[dict[str, Part], dict[str, str], Counter[str]]:
    """The items of each split, the columns they come from, and what to mention."""
    parts: dict[str, Part] = {}
    columns: dict[str, str] = {}
    remarks: Counter[str] = Counter()
    for split in SPLITS:
        if split not in given.tables:
            continue
        table = given.tables[split]
        items: Sequence[Item]
        if kind == "tag":
            items, dropped, found = sentences_of(table, settings, places)
        else:
            items, dropped, found, more = questions_of(table, places)
            remarks += more
        columns = columns or found
        parts[split] = Part(items, table.source, dropped)
    return parts, columns, remarks


def is_nullable(parts: Iterable[Part]) -> bool:
    """Whether some question is said to have no answer."""
    return any(isinstance(item, Question) and item.impossible for part in parts for item in part.items)


def settled_tags(
    parts: dict[str, Part], given: Splits, column: str, settings: DataSettings, known: Sequence[str]
) -> tuple[TaskInfo, dict[str, Part], list[str]]:
    """The task, and the sentences with their tags spelt as it spells them."""
    table = given.tables["train"]
    sentences = {split: _only(part.items, Sentence) for split, part in parts.items()}
    names = tag_names(sentences["train"], table, column, settings) or tuple(known)
    if not names:
        raise DataError(
            f"{table.source}: no word has a tag, so nothing says what the tags are",
            "name the column with --windows.tag-column, or the tags with --data.classes",
        )
    task = TaskInfo(kind="tag", labels=names)
    spelt = {name: name for name in names}
    if known:
        used = names if settings.classes else alphabet(s for part in sentences.values() for s in part) or tuple(known)
        task, places = match(task.but(labels=used), [str(name) for name in known], "the model", bool(settings.classes))
        spelt = {name: task.labels[place] for name, place in zip(used, places, strict=True)}
    for part in sentences.values():
        check_known(part, list(spelt), "--data.classes" if settings.classes else "train")
    parts = {
        split: replace(
            parts[split], items=[replace(s, tags=tuple(spelt.get(tag, tag) for tag in s.tags)) for s in part]
        )
        for split, part in sentences.items()
    }
    return task, parts, _tag_notes(sentences["train"], task)


def _tag_notes(train: Sequence[Sentence], task: TaskInfo) -> list[str]:
    found = dialect((sentence.tags for sentence in train), task.labels)
    if not is_plain(task.labels):
        return [f"tags are {found}: F1 is of whole entities"]
    numbers = "; if they stand for names such as B-PER, list these with --data.classes"
    return [f"tags are plain: F1 is of words{numbers if all(map(str.isdecimal, task.labels)) else ''}"]


def split_card(part: Part, task: TaskInfo) -> SplitCard:
    counts = Counter(tag for item in part.items if isinstance(item, Sentence) for tag in item.tags)
    per_class = {label: counts[label] for label in task.labels} if task.kind == "tag" else {}
    has_label = sum(item.has_label for item in part.items)
    return SplitCard(source=part.source, rows=len(part.items), labelled=has_label, per_class=per_class)


def _window_notes(rows: dict[str, PlaceRows], task: TaskInfo, length: int) -> list[str]:
    notes = []
    for split, part in rows.items():
        windows = Counter(window.item for window in part.windows)
        long = [count for count in windows.values() if count > 1]
        if long:
            notes.append(
                f"{split}: {len(long):,} texts are longer than {length} tokens and read in {sum(long):,} windows"
            )
        if len(windows) < len(part.names):
            what = "sentences hold no word the tokenizer sees" if task.kind == "tag" else "texts hold no token"
            notes.append(f"{split}: {len(part.names) - len(windows):,} {what}; nothing is learnt from them")
    return notes


def _fates(dropped: Counter[str]) -> str:
    return "; ".join(f"{count:,} rows: {reason}" for reason, count in dropped.items()) or "it is empty"


def tell_places(watcher: Watcher, corpus: PlaceCorpus) -> None:
    tell_card(watcher, corpus.card, str(corpus.task), unit="sentences" if corpus.task.kind == "tag" else "questions")
