"""Sentences whose words have tags: named entities in any of the IOB schemes, parts of speech, or others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from limbeck.core.errors import DataError
from limbeck.core.task import TaskInfo
from limbeck.data.columns import NO_LABELS, find_column, plain
from limbeck.data.settings import DataSettings, WindowSettings
from limbeck.data.sources.conll import SUFFIXES as CONLL
from limbeck.data.sources.conll import has_word_lines, is_conll, read_conll
from limbeck.data.sources.files import SUFFIXES
from limbeck.data.sources.gather import Reader
from limbeck.data.sources.new_rows import read_new
from limbeck.data.sources.squad import read_squad
from limbeck.data.sources.tables import Table, is_missing, unboxed
from limbeck.data.sources.unlabelled import read_unlabelled, refuse_unlabelled
from limbeck.data.splits import RowSelection, divide, measured_split
from limbeck.data.text.labels import match
from limbeck.data.transfer import Key, UnlabelledFile, passed_over
from limbeck.data.uids import parts_split_hash, parts_uid
from limbeck.data.window_files import Columns, WindowFiles
from limbeck.data.windows import WindowRow, WindowRows, build_rows, unlabelled_rows
from limbeck_runtime.tags import OUTSIDE, is_plain, split_tag, words_of

_WORDS = ("tokens", "words", "token", "word", "text", "sentence")
_TAGS = ("tags", "ner_tags", "labels", "label", "ner", "tag", "pos_tags", "upos", "pos", "chunk_tags")
_ABSENT = (None, "", -100)
SENTENCE_SUFFIXES = {*SUFFIXES, *CONLL}
_COLUMNS = "name columns with --windows.word-column and --windows.tag-column"


class Sentence(WindowRow):
    @property
    def words(self) -> tuple[str, ...]:
        return self.key

    @property
    def tags(self) -> tuple[str, ...]:
        """One for each word, "" where it has none."""
        return self.gold


Parts = dict[str, RowSelection[Sentence]]


def read_sentences(
    settings: DataSettings,
    windows: WindowSettings,
    data: object | None = None,
    known: Sequence[str] = (),
    only_test: bool = False,
) -> WindowRows[Sentence]:
    """Sentences in train, dev and test. `known` are the tags of a model, in its order.

    With `only_test` the whole file is the test split, and train and dev are empty."""
    if only_test:
        refuse_unlabelled(settings)
    files = _files(settings, windows)
    found = files.read(data)
    given, first = found.given, "train"
    if only_test:
        first = measured_split(given, "name the column with --windows.tag-column")
        given = {"test": given[first]}
    division = divide(given, settings, "sentence", found.source.named)
    table = found.source.tables.get(first) or Table(given[first].source, {})
    task, parts = _named_tags(division.parts, table, found.columns.get("tags", ""), settings, known)
    notes = [*found.source.notes, *division.notes]
    notes.append(_tag_note(parts["test" if only_test else "train"].rows, task))
    whole = replace(division, parts=parts)
    return build_rows(
        files.limit_and_join(found, whole, notes), task, found.columns, notes, "sentence", labels=task.labels
    )


def timing_sentences(settings: DataSettings, windows: WindowSettings) -> list[tuple[str, str]]:
    """Every sentence of a file, with tags or without."""
    return [row.texts for row in _files(settings, windows).read(None).given["train"].rows]


def reader_of(windows: WindowSettings) -> Reader:
    def read(path: Path, settings: DataSettings) -> Table:
        return read_conll(path, settings, windows) if is_conll(path) else read_squad(path, settings)

    return read


def new_sentences(settings: DataSettings, windows: WindowSettings, data: object) -> tuple[Table, list[tuple[str, ...]]]:
    """A table of sentences to tag, and the words of each; a text that is no list of words is cut into them."""
    table = _read_new(settings, data, windows=windows)
    name = find_column(table, windows.word_column, _WORDS, _COLUMNS) or next(iter(table.columns))
    return table, _words(table, name)


def _read_new(settings: DataSettings, data: object, name: str = "words", *, windows: WindowSettings) -> Table:
    return read_new(settings, data, name, (), reader_of(windows), SENTENCE_SUFFIXES, has_word_lines)


def _words(table: Table, name: str) -> list[tuple[str, ...]]:
    cells = [unboxed(cell) for cell in table.columns[name]]
    return [
        tuple(words_of(cell)) if isinstance(cell, str) else tuple(map(str, _list(cell, name, table.where(row))))
        for row, cell in enumerate(cells)
    ]


def unlabelled_sentences(rows: Sequence[tuple[str, ...]], task: TaskInfo) -> WindowRows[Sentence]:
    sentences = [
        Sentence(words, (" ".join(words), ""), ("",) * len(words), False, f"row {number}", words, 0.0)
        for number, words in enumerate(rows, 1)
    ]
    return unlabelled_rows(sentences, task)


def _files(settings: DataSettings, windows: WindowSettings) -> WindowFiles[Sentence]:
    return WindowFiles(
        settings,
        "sentence",
        reader_of(windows),
        partial(_select_table, settings=settings, windows=windows),
        partial(_unlabelled, settings, windows),
        _uid,
        SENTENCE_SUFFIXES,
    )


def _uid(words: Key) -> int:
    """Of its letters: plain text may be cut into other words than those of a labelled file."""
    return parts_uid("item", ["".join(words)], "")


def _unlabelled(
    settings: DataSettings, windows: WindowSettings, columns: Columns
) -> Iterator[UnlabelledFile[Sentence]]:
    """The sentences of --unlabelled, cut into words as those to predict. Train's `columns` count first."""
    read = partial(_read_new, windows=windows.but(tag_column=""))
    for table in read_unlabelled(settings, "words", read, SENTENCE_SUFFIXES):
        name = _word_column(table, columns.get("words", windows.word_column))
        _refuse_word_lines(table, name)
        words = replace(table, columns={name: _words(table, name)})
        part, found = _select_table(words, settings, windows.but(word_column=name, tag_column=NO_LABELS))
        tags = {columns.get("tags", windows.tag_column), *_TAGS}
        ignored = next((other for other in table.columns if other != name and {other, plain(other)} & tags), "")
        yield UnlabelledFile(part, found, [*passed_over(table.source, ignored, "sentence"), *table.notes])


def _word_column(table: Table, wanted: str) -> str:
    """The column of that name, else one found by its name, else the only one."""
    found = find_column(table, wanted if wanted in table.columns else "", _WORDS, _COLUMNS)
    if not found and len(table.columns) > 1:
        raise _no_words(table)
    return found or next(iter(table.columns))


def _no_words(table: Table) -> DataError:
    return DataError(
        f"{table.source}: no column is known to hold words; its columns: {', '.join(table.columns)}",
        "name it with --windows.word-column",
    )


def _refuse_word_lines(table: Table, name: str) -> None:
    """Refuses a folder of CoNLL files, whose tags would be read as words of a text."""
    texts = [cell for cell in table.columns[name] if isinstance(cell, str) and cell.strip()]
    if texts and all("\n" in text and has_word_lines(text) for text in texts):
        raise DataError(
            f"{table.source}: each text has a word per line, as CoNLL has",
            "give such files by their names, separated by commas",
        )


def _select_table(
    table: Table, settings: DataSettings, windows: WindowSettings
) -> tuple[RowSelection[Sentence], dict[str, str]]:
    """The sentences of a table, and the columns they come from."""
    words = find_column(table, windows.word_column, _WORDS, _COLUMNS)
    tags = "" if windows.tag_column == NO_LABELS else find_column(table, windows.tag_column, _TAGS, _COLUMNS)
    if not words:
        raise _no_words(table)
    names = tuple(settings.classes.split(",")) if settings.classes else table.names.get(tags, ())
    sentences = []
    for row, cell in enumerate(table.columns[words]):
        where = f"{table.where(row)} (sentence {row + 1})" if table.lines else table.where(row)
        found = tuple(str(word) for word in _list(cell, words, where))
        tagged = _list(table.columns[tags][row], tags, where) if tags else ()
        if not found:
            continue
        if tagged and len(tagged) != len(found):
            raise DataError(
                f"{where}: {len(found)} words in column '{words}', but {len(tagged)} tags in column '{tags}'",
                "give every word one tag",
            )
        spelt = tuple(_tag(tag, names, f"{where}, word {n}") for n, tag in enumerate(tagged, 1))
        gold = spelt or ("",) * len(found)
        text = " ".join(found)
        sentences.append(Sentence(found, (text, ""), gold, any(gold), where, found, parts_split_hash(found, where)))
    columns = {"words": words, **({"tags": tags} if tags else {})}
    return RowSelection.of(table, sentences, {"empty sentence": len(table) - len(sentences)}), columns


def _list(cell: Any, column: str, where: str) -> Sequence[Any]:
    cell = unboxed(cell)
    if is_missing(cell):
        return ()
    if not isinstance(cell, (list, tuple)):
        raise DataError(
            f"{where}: column '{column}' holds {type(cell).__name__} {str(cell)[:40]!r}, not a list",
            "give lists of words and of tags, or a CoNLL file with a word and its tag on every line",
        )
    return cell


def _tag(value: Any, names: Sequence[str], where: str) -> str:
    if value in _ABSENT or value != value:
        return ""
    if isinstance(value, str) or not names:
        return str(value).strip()
    if not 0 <= int(value) < len(names):
        raise DataError(f"{where}: tag {value}, but there are {len(names)} tag names", "name all with --data.classes")
    return names[int(value)].strip()


def tag_names(sentences: Iterable[Sentence], table: Table, column: str, settings: DataSettings) -> tuple[str, ...]:
    """The tags in the order of --data.classes or of the data's own schema, else that of the alphabet, O first."""
    if settings.classes:
        return tuple(name.strip() for name in settings.classes.split(","))
    if column in table.names:
        return tuple(name.strip() for name in table.names[column])
    return alphabet(sentences)


def alphabet(sentences: Iterable[Sentence]) -> tuple[str, ...]:
    """Every tag that occurs: O, numbers in rising order, names."""
    found = {tag for sentence in sentences for tag in sentence.tags if tag}
    return tuple(sorted(found, key=lambda tag: (tag != OUTSIDE, int(tag) if tag.isdecimal() else -1, tag)))


def scheme(sentences: Iterable[Sequence[str]], labels: Sequence[str]) -> str:
    """How the tags mark where an entity begins: IOB1, IOB2, IOBES, BILOU."""
    if is_plain(labels):
        return "plain"
    if {split_tag(label)[0] for label in labels} & {"E", "S"}:
        return "BILOU" if {label[0] for label in labels} & {"L", "U"} else "IOBES"
    loose, needless = _beginnings(sentences)
    if not loose:
        return "IOB2"
    return "IOB, mixed" if needless else "IOB1"


def _beginnings(sentences: Iterable[Sequence[str]]) -> tuple[bool, bool]:
    """Whether an entity begins with I, and whether one begins with B where IOB1 has I."""
    loose = needless = False
    for tags in sentences:
        before = (OUTSIDE, "")
        for tag in tags:
            place, kind = split_tag(tag or OUTSIDE)
            fresh = before[0] == OUTSIDE or before[1] != kind
            loose = loose or (place == "I" and fresh)
            needless = needless or (place == "B" and fresh)
            before = place, kind
    return loose, needless


def check_known(sentences: Iterable[Sentence], labels: Sequence[str], of: str) -> None:
    known = {"", *labels}
    for sentence in sentences:
        for number, tag in enumerate(sentence.tags, 1):
            if tag not in known:
                raise DataError(
                    f"{sentence.where}, word {number} ({sentence.words[number - 1]!r}): the tag '{tag}' is not among "
                    f"those of {of} ({', '.join(labels[:6])}{', …' if len(labels) > 6 else ''})",
                    "mend it, or list every tag with --data.classes",
                )


def _named_tags(
    parts: Parts, table: Table, column: str, settings: DataSettings, known: Sequence[str]
) -> tuple[TaskInfo, Parts]:
    """The task, and the sentences with their tags spelt as the task spells them."""
    first = next(part for part in parts.values() if len(part))
    names = tag_names(first.rows, table, column, settings) or tuple(known)
    if not names:
        raise DataError(
            f"{table.source}: no word has a tag, so the tags are unknown",
            "name the column with --windows.tag-column, or the tags with --data.classes",
        )
    task = TaskInfo(kind="tag", labels=names)
    spelt = {name: name for name in names}
    if known:
        rows = (row for part in parts.values() for row in part.rows)
        used = names if settings.classes else alphabet(rows) or tuple(known)
        task, ids = match(
            replace(task, labels=used), [str(name) for name in known], "the model", bool(settings.classes)
        )
        spelt = {name: task.labels[place] for name, place in zip(used, ids, strict=True)}
    for part in parts.values():
        check_known(part.rows, list(spelt), "--data.classes" if settings.classes else "train")
    return task, {
        split: replace(
            part, rows=[replace(row, gold=tuple(spelt.get(tag, tag) for tag in row.tags)) for row in part.rows]
        )
        for split, part in parts.items()
    }


def _tag_note(train: Sequence[Sentence], task: TaskInfo) -> str:
    if not is_plain(task.labels):
        return f"tags are {scheme((row.tags for row in train), task.labels)}: F1 is of whole entities"
    numbers = "; if they stand for names such as B-PER, list these with --data.classes"
    return f"tags are plain: F1 is of words{numbers if all(map(str.isdecimal, task.labels)) else ''}"
