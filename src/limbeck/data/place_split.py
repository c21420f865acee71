"""Sentences and questions in train, dev and test. What belongs together is never cut apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from limbeck.core.errors import DataError, KnobError
from limbeck.data.answers import Question
from limbeck.data.places import hashed
from limbeck.data.settings import DataSettings
from limbeck.data.tags import Sentence

Item = Sentence | Question
_FEWEST = 10  # rows a part must be expected to get for a cut to be worth measuring on


@dataclass(frozen=True)
class Part:
    items: Sequence[Item]
    source: str
    dropped: Counter[str] = field(default_factory=Counter)


def with_labels(parts: dict[str, Part], named: Collection[str]) -> tuple[dict[str, Part], list[str]]:
    """Leaves out dev and test splits nothing can be measured on."""
    if not any(item.has_label for item in parts["train"].items):
        return parts, []
    bare = [split for split, part in parts.items() if not any(item.has_label for item in part.items)]
    for split in bare:
        if split in named:
            raise DataError(
                f"{parts[split].source} has no labels, so nothing can be measured on it",
                f"give a labelled file, or leave out --data.{split} and a part of train is cut off for it",
            )
    notes = [f"{parts[split].source} has no labels and is left out; {split} is cut from train" for split in bare]
    return {split: part for split, part in parts.items() if split not in bare}, notes


def cut_missing(parts: dict[str, Part], settings: DataSettings) -> dict[str, Part]:
    """By a hash of the sentence or paragraph, which so keeps its split whatever else the file holds."""
    missing = [split for split in ("dev", "test") if split not in parts]
    if not missing:
        return dict(parts)
    if settings.dev_share + settings.test_share >= 1:
        raise KnobError(
            f"dev_share {settings.dev_share:g} and test_share {settings.test_share:g} leave nothing for train",
            "make their sum less than 1",
        )
    train = parts["train"]
    bounds = {
        "test": (0.0, settings.test_share),
        "dev": (settings.test_share, settings.test_share + settings.dev_share),
    }
    made: dict[str, list[Item]] = {split: [] for split in ("train", *missing)}
    for item in train.items:
        share = hashed("split", item.group, item.where) / 2.0**63
        home = next((split for split in missing if bounds[split][0] <= share < bounds[split][1]), "train")
        made[home].append(item)
    what = "paragraph" if isinstance(train.items[0], Question) else "sentence"
    found = {**parts, "train": replace(train, items=made["train"])}
    for split in missing:
        low, high = bounds[split]
        if len(train.items) * (high - low) < _FEWEST or len(made[split]) < _FEWEST // 2:
            raise DataError(
                f"{train.source} has {len(train.items):,} usable rows: too few to cut {' and '.join(missing)} from "
                f"({split} would get {len(made[split])})",
                "give more rows, a larger share (--data.dev-share, --data.test-share), or files with --data.dev and "
                "--data.test",
            )
        found[split] = Part(made[split], f"cut from {train.source} by a hash of the {what} ({high - low:.0%})")
    return found


def drawn(part: Part, limit: int) -> Part:
    """So many items, drawn by a hash and so always the same ones, in their own order."""
    order = sorted(range(len(part.items)), key=lambda n: hashed("limit", part.items[n].key, part.items[n].where))
    return replace(part, items=[part.items[n] for n in sorted(order[:limit])])


def repeats(parts: dict[str, Part]) -> tuple[int, int]:
    """Items that came before in the same split, and how many of them with other labels than the first."""
    duplicates = conflicts = 0
    for part in parts.values():
        first: dict[tuple[str, ...], Item] = {}
        for item in part.items:
            before = first.setdefault(item.key, item)
            duplicates += before is not item
            conflicts += before.has_label and item.has_label and before.gold != item.gold
    return duplicates, conflicts


def overlaps(parts: dict[str, Part]) -> list[str]:
    notes = []
    seen = {item.group for item in parts["train"].items}
    for split in ("dev", "test"):
        count = sum(item.group in seen for item in parts[split].items)
        if count:
            same = "the paragraph" if isinstance(parts[split].items[0], Question) else "the sentence"
            notes.append(f"{count:,} of {split}: {same} also occurs in train")
    return notes
