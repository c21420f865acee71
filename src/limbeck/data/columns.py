"""Which column is the text, which the second text, which the label: found by name, or given by flag."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from limbeck.core.errors import DataError
from limbeck.data.settings import DataSettings
from limbeck.data.sources.tables import Table

# fmt: off
# The first name of TEXTS and of LABELS wins where several of them are present; any other tie is refused.
TEXTS = (
    "text", "sentence", "content", "review", "comment", "document", "tweet", "message", "body", "utterance",
    "query", "question", "premise", "claim", "comment_text", "review_text", "review_body", "reviewtext", "abstract",
    "headline", "passage", "sentence1", "text1", "question1", "sentence_1", "text_1", "question_1", "sentence_a",
    "text_a",
)
PAIRS = (
    ("sentence1", "sentence2"), ("sentence_1", "sentence_2"), ("sentence_a", "sentence_b"),
    ("text1", "text2"), ("text_1", "text_2"), ("text_a", "text_b"), ("text", "text_pair"), ("text", "pair"),
    ("question1", "question2"), ("question_1", "question_2"), ("#1 string", "#2 string"),
    ("premise", "hypothesis"), ("claim", "evidence"),
    ("question", "sentence"), ("question", "answer"), ("question", "context"), ("question", "passage"),
    ("query", "answer"), ("query", "document"), ("query", "passage"),
)
LABELS = (
    "label", "labels", "class", "category", "target", "sentiment", "score", "stars", "rating", "quality",
    "gold_label", "polarity", "intent", "emotion", "topic", "similarity", "similarity_score", "relatedness_score",
    "is_duplicate",
)
# fmt: on
_KNOWN = {*TEXTS, *LABELS, *(name for pair in PAIRS for name in pair)}

NO_LABELS = "none"  # as --label-column
_LOOK = 200  # rows that tell a text from a label
_WORDY = 20  # letters of a text on average, at least, to be the second of a pair


@dataclass(frozen=True)
class Roles:
    text: str
    pair: str = ""
    labels: tuple[str, ...] = ()  # none: the table is unlabelled; several: columns of 0 and 1
    teacher: tuple[str, ...] = ()  # a teacher's answers; several: a column of probabilities per class


def plain(name: str) -> str:
    return name.strip().casefold()


def find_column(table: Table, flag: str, known: Sequence[str], remedy: str) -> str:
    """The column that a flag names, else the first of the known names; "" where there is none."""
    if flag and flag not in table.columns:
        raise DataError(f"{table.source} has no column '{flag}'; its columns: {', '.join(table.columns)}", remedy)
    names = {plain(name): name for name in table.columns}
    return flag or next((names[name] for name in known if name in names), "")


def is_known(name: str) -> bool:
    return plain(name) in _KNOWN


def choose(table: Table, settings: DataSettings, follow: Roles | None = None) -> Roles:
    """The roles of a table's columns. A further split may `follow` train and yet name its columns differently."""
    text, pair = settings.text_column, settings.pair_column
    if follow is None:
        check_column(table, text, "pass --text-column NAME")
        check_column(table, pair, "pass --data.pair-column NAME")
    else:
        text, pair = (name if name in table.columns else "" for name in (follow.text, follow.pair))
    teacher = _teacher(table, settings.teacher_column, follow)
    text, pair = _texts(table, text, pair, {*settings.label_column.split(","), *teacher})
    if follow and bool(pair) != bool(follow.pair):
        raise DataError(
            f"{table.source} has {'pairs of texts' if pair else 'single texts'}, but train has "
            f"{'pairs' if follow.pair else 'single texts'}; its columns: {table.listed}",
            "give every split the same columns, or name them with --text-column and --data.pair-column",
        )
    roles = Roles(text, pair, _labels(table, settings.label_column, {text, pair, *teacher}, follow), teacher)
    _check_apart(table, roles)
    return roles


def _texts(table: Table, text: str, pair: str, taken: set[str]) -> tuple[str, str]:
    if text:
        return text, pair
    names = {plain(name): name for name in table.columns if name not in taken}
    if not pair:
        found = [(names[a], names[b]) for a, b in PAIRS if a in names and b in names]
        if len(found) == 1 and names.get("text") in (None, found[0][0]):
            return found[0]
    singles = [names[name] for name in TEXTS if name in names and names[name] != pair]
    if "text" in names and names["text"] != pair:
        return names["text"], pair
    flags = "--text-column NAME (and --data.pair-column NAME for pairs)"
    return _only(table, singles, "text", flags, label=not taken - {""}), pair


def may_hold_labels(table: Table, roles: Roles, flag: str) -> bool:
    """Whether a table without a known label column has one that could be it, and no flag says otherwise."""
    known = {roles.text, roles.pair, *roles.teacher}
    return flag != NO_LABELS and any(name not in known for name in table.columns)


def _teacher(table: Table, flag: str, follow: Roles | None) -> tuple[str, ...]:
    """The columns with a teacher's answers, which a further split may lack."""
    names = (
        (flag,) if flag and flag in table.columns else tuple(name.strip() for name in flag.split(",") if name.strip())
    )
    if follow and not all(name in table.columns for name in names):
        return ()
    for name in names:
        check_column(table, name, "name the column, or columns, with --teacher-column")
    return names


def _check_apart(table: Table, roles: Roles) -> None:
    """Refuses a column that is to be the teacher's and something else."""
    for name in (name for name in roles.teacher if name in (roles.text, roles.pair, *roles.labels)):
        other = "label" if name in roles.labels else "text"
        raise DataError(
            f"{table.source}: the column '{name}' cannot be the teacher's and the {other}",
            "name another with --teacher-column, or, if no row has a label, pass --label-column none",
        )


def _labels(table: Table, flag: str, taken: set[str], follow: Roles | None) -> tuple[str, ...]:
    if flag == NO_LABELS and flag not in table.columns:
        return ()
    flags = (
        (flag,) if flag and flag in table.columns else tuple(name.strip() for name in flag.split(",") if name.strip())
    )
    if flags and (follow is None or all(name in table.columns for name in flags)):
        for name in flags:
            check_column(table, name, "pass --label-column NAME")
        return flags
    if follow and all(name in table.columns for name in follow.labels):
        return follow.labels
    names = {plain(name): name for name in table.columns if name not in taken}
    found = [names[name] for name in LABELS if name in names]
    if "label" in names:
        return (names["label"],)
    return (_only(table, found, "label", "--label-column NAME"),) if found else ()


def _only(table: Table, found: Sequence[str], role: str, flag: str, label: bool = True) -> str:
    if len(found) == 1:
        return found[0]
    what = f"several columns could be the {role} ({', '.join(found)})" if found else f"no column is known as the {role}"
    raise DataError(f"{table.source}: {what}; {_columns(table)}", _proposal(table, label=label) or f"pass {flag}")


def check_column(table: Table, name: str, remedy: str) -> None:
    """Refuses a flag that names a column which is not there."""
    if name and name not in table.columns:
        raise DataError(f"{table.source} has no column '{name}'; its columns: {table.listed}", remedy)


def no_label(table: Table, roles: Roles) -> DataError:
    if roles.labels:
        return DataError(
            f"{table.source}: no row has a label in column '{roles.labels[0]}'",
            "label some rows, or name the teacher's classes with --data.classes a,b",
        )
    return DataError(
        f"{table.source}: no column is known as the label; {_columns(table)}",
        f"{_proposal(table, roles.text) or 'pass --label-column NAME'}; or, if the rows have no labels and a teacher "
        "gives them, --label-column none (without a teacher that names its classes, --data.classes a,b too)",
    )


def _columns(table: Table) -> str:
    """The names of the columns, and what is odd about them."""
    if "1" in table.columns:
        return f"the file has no header, so its columns are numbered: {table.listed}"
    odd = " (its first line reads like a row, not like names)" if _is_row(table) else ""
    return f"its columns: {table.listed}{odd}"


def _is_row(table: Table) -> bool:
    """Whether what was read as the names of the columns reads like a row: as values of theirs, or as prose."""
    named = table.lines and "1" not in table.columns
    return bool(named) and any(
        name in values[:_LOOK] or len(name.split()) > 3 for name, values in table.columns.items()
    )


def _proposal(table: Table, text: str = "", label: bool = True) -> str:
    """The flags that are likely meant: the column with the longest texts, one with texts of like length as their pair,
    and of the others the one that repeats most.

    A column has its number where the file has no header; to give one is to say so."""
    names = {name: str(number) for number, name in enumerate(table.columns, 1)} if _is_row(table) else {}
    values = {name: [str(value) for value in column[:_LOOK]] for name, column in table.columns.items()}
    if len(values) < 2 or not any(values.values()):
        return ""
    length = {name: sum(map(len, column)) / len(column) for name, column in values.items()}
    text = text or max(length, key=lambda name: length[name])
    others = [name for name in length if name != text]
    flags = {"--text-column": text}
    if label:
        flags["--label-column"] = min(others, key=lambda name: len(set(values[name])))
    like = [name for name in others if length[name] > max(_WORDY, length[text] / 3) and name not in flags.values()]
    if len(like) == 1:
        flags["--text-column"], flags["--data.pair-column"] = sorted((text, like[0]), key=list(length).index)
    return "pass " + " ".join(f"{flag} {shlex.quote(names.get(name, name))}" for flag, name in flags.items())
