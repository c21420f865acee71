"""Labelled images: in train, dev and test, each under a uid of its own, and as what a network reads.

The uid follows from the pixels, and split and order of drawing from the same hash, as with texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.core.errors import DataError, KnobError
from limbeck.core.image_processor import ImageProcessor, size_text
from limbeck.core.progress import Silent, Watcher
from limbeck.core.task import TaskInfo
from limbeck.data.image import digits
from limbeck.data.image.idx import ImageTable, check_idx, locate_idx, read_idx
from limbeck.data.settings import DataSettings
from limbeck.data.splits import LabelledSplits, RowSelection, divide, draw_split, in_order, log_card, measured_split
from limbeck.data.text.examples import split_card
from limbeck.data.uids import hash64, repeats, uid

UNLABELLED = -100


@dataclass(frozen=True, slots=True)
class ImageRow:
    """An image of a table, by its number there."""

    table: ImageTable
    number: int
    hash: int  # of the pixels
    has_label: bool

    @property
    def where(self) -> str:
        return f"{self.table.source}, image {self.number}"

    @property
    def split_hash(self) -> float:
        return self.hash / 2.0**64


@dataclass(frozen=True)
class Images:
    """The rows of a split."""

    uids: np.ndarray  # [n] int64, not negative, unique in the corpus
    pixels: np.ndarray  # [n, height, width] uint8
    labels: np.ndarray  # [n] int64; -100 where there is no label
    has_label: np.ndarray  # [n] bool
    hashes: np.ndarray  # [n] uint64, of the pixels alone
    numbers: np.ndarray  # [n] the place in the file, from 0
    source: str  # the file

    pairs: tuple[str, ...] = ()  # as texts have them

    def __len__(self) -> int:
        return len(self.uids)

    @property
    def texts(self) -> list[str]:
        """What an image is called in reports."""
        return [f"image {number} of {Path(self.source).name}" for number in self.numbers.tolist()]

    @property
    def keys(self) -> list[int]:
        return list(self.hashes.tolist())

    def take(self, indices: Sequence[int] | np.ndarray) -> Images:
        chosen = np.asarray(indices, dtype=np.int64)
        parts = ("uids", "pixels", "labels", "has_label", "hashes", "numbers")
        return replace(self, **{name: getattr(self, name)[chosen] for name in parts})


@dataclass(frozen=True)
class ImageCorpus(LabelledSplits[Images]):
    """Labelled images."""

    @property
    def processor(self) -> ImageProcessor:
        height, width = self.test.pixels.shape[1:]
        return ImageProcessor(height, width)


def read_images(
    settings: DataSettings,
    data: object | None = None,
    watcher: Watcher = Silent(),  # noqa: B008
    known: Sequence[str] = (),
    only_test: bool = False,
) -> ImageCorpus:
    """Reads, checks and splits; logs what became of every image.

    `known` are the classes of a teacher, for images without labels. With `only_test` one file is the test split, and
    train and dev are empty."""
    tables = in_order(_tables(settings, data))
    sizes = {table.pixels.shape[1:]: table for table in tables.values()}
    if len(sizes) > 1:
        (one, first), (other, second) = list(sizes.items())[:2]
        raise DataError(
            f"{first.source} has images of {size_text(one)} pixels, {second.source} of {size_text(other)}",
            "give images of one size",
        )
    given = {split: _select(table) for split, table in tables.items()}
    if only_test:
        chosen = measured_split(given, "put the file of their labels beside them")
        tables, given = {"test": tables[chosen]}, {"test": given[chosen]}
    names = _names(settings, tables, known)
    division = divide(given, settings, "image", {split for split in ("dev", "test") if getattr(settings, split)})
    seen: Counter[int] = Counter()
    found = {split: _images(part, sizes, seen) for split, part in division.parts.items()}
    keys = {split: part.keys for split, part in found.items()}
    gold = {split: part.labels.tolist() for split, part in found.items()}  # a file has labels for all or for none
    notes = list(division.notes)
    for split, images in found.items():
        if drawn := draw_split(split, images.uids, settings, notes):
            found[split] = images.take(drawn)
    info = TaskInfo(kind="image", labels=names)
    cards = {split: split_card(info, part, division.parts[split].source) for split, part in found.items()}
    of_labels = next((table.label_source for table in tables.values() if table.labels is not None), "")
    columns = {"image": next(iter(tables.values())).source} | ({"label": of_labels} if of_labels else {})
    groups = {split: part.keys for split, part in found.items()}
    card = division.card(columns, cards, "image", keys, labels=gold, groups=groups, notes=notes)
    log_card(watcher, card, str(info), unit="images", repeated="seen before")
    return ImageCorpus(**found, card=card, task=info)


def new_images(settings: DataSettings, data: object | None = None) -> ImageTable:
    """Images to predict, which need no labels: of several splits, those of test."""
    tables = _tables(settings, data)
    return tables.get("test") or tables.get("dev") or tables["train"]


def check_images(settings: DataSettings) -> None:
    """Refuses, before torch is imported, files that are not there or of another kind."""
    if _is_embedded(settings):
        digits.find_digits()
        return
    for files in locate_idx(settings).values():
        check_idx(files)


def _is_embedded(settings: DataSettings) -> bool:
    return settings.train == digits.NAME and not Path(settings.train).exists()


def _tables(settings: DataSettings, data: object | None) -> dict[str, ImageTable]:
    """Of files, or of what Python holds: (images, labels), or these by split."""
    if isinstance(data, str | Path):
        settings, data = settings.but(train=str(data)), None
    if data is None:
        if _is_embedded(settings):
            return {"train": digits.read_digits()}
        return {split: read_idx(files) for split, files in locate_idx(settings).items()}
    if isinstance(data, list) and any(isinstance(one, str | tuple) for one in data):
        raise DataError("a model of images answers images, not texts", "give an IDX file of images with --data")
    parts: Mapping[str, Any] = data if isinstance(data, Mapping) else {"train": data}
    return {split: _in_hand(split, part) for split, part in parts.items()}


def _in_hand(split: str, part: Any) -> ImageTable:
    images, labels = part if isinstance(part, tuple) else (part, None)
    pixels, known = np.asarray(images), None if labels is None else np.asarray(labels)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or not pixels.size:
        raise DataError(
            f"the given {split} images are {pixels.dtype} of shape {list(pixels.shape)}, not uint8 [n, height, width]",
            "give grey images as unsigned bytes, and labels beside them: (images, labels)",
        )
    if known is not None and known.shape != (len(pixels),):
        raise DataError(f"there are {len(known):,} labels, but {len(pixels):,} images", "give one label for each")
    return ImageTable(f"the given {split} images", pixels, known, f"the given {split} labels")


def _select(table: ImageTable) -> RowSelection[ImageRow]:
    size, labelled = f"{size_text(table.pixels.shape[1:])} ".encode(), table.labels is not None
    hashes = (hash64("split", size, image.tobytes()) for image in table.pixels)
    rows = [ImageRow(table, number, content, labelled) for number, content in enumerate(hashes)]
    return RowSelection(rows, table.source, read=len(table))


def _images(part: RowSelection[ImageRow], sizes: Mapping[Any, ImageTable], seen: Counter[int]) -> Images:
    if not part.rows:
        nothing = np.zeros(0, dtype=np.int64)
        empty = np.zeros((0, *next(iter(sizes))), dtype=np.uint8)
        return Images(nothing, empty, nothing, nothing.astype(bool), nothing.astype(np.uint64), nothing, "")
    table, numbers = part.rows[0].table, np.array([row.number for row in part.rows], dtype=np.int64)
    pixels, hashes = table.pixels[numbers], [row.hash for row in part.rows]
    times = repeats(hashes, seen)
    uids = [uid("image", f"{content} {count}".encode()) for content, count in zip(hashes, times, strict=True)]
    labels = np.full(len(numbers), UNLABELLED) if table.labels is None else table.labels[numbers].astype(np.int64)
    known = np.full(len(numbers), table.labels is not None)
    return Images(
        np.array(uids, dtype=np.int64), pixels, labels, known, np.array(hashes, np.uint64), numbers, table.source
    )


def _names(settings: DataSettings, tables: Mapping[str, ImageTable], known: Sequence[str]) -> tuple[str, ...]:
    """Of the classes 0, 1, 2 …, as a flag names them; else as many as train, or what is measured, has."""
    listed = tuple(name.strip() for name in settings.classes.split(",") if name.strip())
    labelled = {split: table for split, table in tables.items() if table.labels is not None}
    first = next((table.labels for table in labelled.values() if table.labels is not None), None)
    names = listed or (tuple(known) if first is None else tuple(map(str, range(int(first.max()) + 1))))
    if labelled and len(names) < 2:
        raise DataError(f"{next(iter(labelled.values())).label_source} has one class alone", "give images of several")
    for table in labelled.values():
        assert table.labels is not None
        beyond = np.flatnonzero((table.labels < 0) | (table.labels >= len(names)))
        if len(beyond):
            whose = "--data.classes lists" if listed else f"{next(iter(labelled.values())).label_source} has"
            raise DataError(
                f"{table.label_source}, image {beyond[0]}: the label is {table.labels[beyond[0]]}, but {whose} "
                f"{len(names)} classes, 0 to {len(names) - 1}",
                "give the labels of these images, or name all classes in their order with --data.classes",
            )
    return names


def of_labels(images: Images, info: TaskInfo, wanted: str) -> Images:
    """The images of some labels, comma-separated; all where none is named."""
    named = [name.strip() for name in wanted.split(",") if name.strip()]
    for name in named:
        if name not in info.labels:
            raise KnobError(f"--image.train-labels: there is no label '{name}'", f"labels: {', '.join(info.labels)}")
    if not named:
        return images
    found = images.take(np.flatnonzero(np.isin(images.labels, [info.labels.index(name) for name in named])))
    if not len(found):
        raise KnobError(f"no training image has one of the labels {', '.join(named)}", "name others")
    return found
