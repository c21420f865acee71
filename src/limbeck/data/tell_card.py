"""What became of every row, said before anything is trained."""

from __future__ import annotations

from collections.abc import Iterator

from limbeck.core.progress import Watcher
from limbeck.core.record import DataCard

SOFT = "without a label, kept for the soft terms"


def tell_card(
    watcher: Watcher,
    card: DataCard,
    task: str = "",
    *,
    unit: str = "rows",
    bare: str = SOFT,
    again: str = "seen before",
) -> None:
    """`unit` is what was read; `bare` says what becomes of those without an answer, `again` what repeats."""
    roles = ", ".join(f"{role} from {column}" for role, column in card.columns.items())
    watcher.say(f"data: {card.source}, {card.read:,} {unit}; {roles}")
    if task:
        watcher.say(f"task: {task}")
    watcher.say("splits: " + ", ".join(f"{name} {split.rows:,}" for name, split in card.splits.items()))
    watcher.say(f"{unit}: {'; '.join(_fates(card, bare, again)) or 'none dropped, none repeated'}")
    for note in card.notes:
        watcher.say(f"note: {note}")


def _fates(card: DataCard, bare: str, again: str) -> Iterator[str]:
    for reason, count in card.dropped.items():
        yield f"{count:,} dropped: {reason}"
    if unanswered := sum(split.rows - split.labelled for split in card.splits.values()):
        yield f"{unanswered:,} {bare}"
    if card.duplicates:
        yield f"{card.duplicates:,} {again}, kept"
    if card.conflicts:
        yield f"{card.conflicts:,} of them with another label"
