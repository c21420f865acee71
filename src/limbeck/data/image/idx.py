"""IDX files, the format of MNIST: images and labels in files of their own, gzipped or not.

    images  00 00 08 03, count, rows, columns (big-endian, 4 bytes each), then a byte for each pixel, 0 is background
    labels  00 00 08 01, count, then a byte for each label

A folder has them under MNIST's names: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte,
t10k-labels-idx1-ubyte; also with a dot (train-images.idx3-ubyte), as test-…, and as dev-… or validation-….
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from limbeck.core.errors import DataError
from limbeck.core.image_processor import size_text
from limbeck.data.settings import DataSettings
from limbeck.data.sources.files import missing, unzipped

IMAGES, LABELS = 0x00000803, 0x00000801  # magic numbers
_WHAT = {IMAGES: "images", LABELS: "labels"}
_PREFIXES = {
    "train": "train",
    **dict.fromkeys(("t10k", "test"), "test"),
    **dict.fromkeys(("dev", "val", "valid", "validation"), "dev"),
}
_NAME = re.compile(rf"({'|'.join(_PREFIXES)})[-_.](images|labels)[-.]idx[13][-.]ubyte(\.gz)?", re.IGNORECASE)
_AGAIN = "copy or download it again"


@dataclass(frozen=True)
class IdxFiles:
    """Of one split; without labels its images can only be answered."""

    images: Path
    labels: Path | None


@dataclass(frozen=True)
class ImageTable:
    """The images of one split as they stand in their file."""

    source: str
    pixels: np.ndarray  # [n, height, width] uint8
    labels: np.ndarray | None = None  # [n] uint8
    label_source: str = ""

    def __len__(self) -> int:
        return len(self.pixels)


def locate_idx(settings: DataSettings) -> dict[str, IdxFiles]:
    """The files of each split that --data, --data.dev and --data.test name."""
    if not settings.train:
        raise DataError("no data given", "pass --data with a folder of IDX files, an IDX file of images, or 'digits'")
    path = Path(settings.train).expanduser()
    found = _folder(path) if path.is_dir() else {"train": _pair(path)}
    named = {"dev": settings.dev, "test": settings.test}
    return found | {split: _pair(Path(name).expanduser()) for split, name in named.items() if name}


def read_idx(files: IdxFiles) -> ImageTable:
    """Refuses files that are cut short, of another kind, or do not belong together."""
    pixels = _read(files.images, IMAGES)
    if files.labels is None:
        return ImageTable(str(files.images), pixels)
    labels = _read(files.labels, LABELS)
    if len(labels) != len(pixels):
        raise DataError(
            f"{files.labels} has {len(labels):,} labels, but {files.images} has {len(pixels):,} images",
            "give the labels of these images: both files come from one split",
        )
    return ImageTable(str(files.images), pixels, labels, str(files.labels))


def check_idx(files: IdxFiles) -> None:
    """Refuses by their first bytes what `read_idx` would refuse later."""
    for path, magic in ((files.images, IMAGES), (files.labels, LABELS)):
        if path is not None:
            _shape(path, unzipped(path, 16), magic)


def _folder(folder: Path) -> dict[str, IdxFiles]:
    """The plain file where there is a gzipped one beside it."""
    files: dict[tuple[str, str], Path] = {}
    for path in sorted(folder.iterdir(), key=lambda path: (not path.name.endswith(".gz"), path.name)):
        if path.is_file() and (match := _NAME.fullmatch(path.name)):
            files[_PREFIXES[match[1].lower()], match[2].lower()] = path
    found = {
        split: IdxFiles(path, files.get((split, "labels"))) for (split, what), path in files.items() if what == "images"
    }
    for split in ("train", "test", "dev"):
        if split in found and found[split].labels is None:
            raise DataError(
                f"{folder} has {found[split].images.name}, but no file of its labels",
                f"put {_label_name(found[split].images.name)} beside it, or give the file of images itself",
            )
    if "train" not in found and "test" not in found:
        names = ", ".join(sorted(path.name for path in folder.iterdir())[:6]) or "nothing"
        raise DataError(
            f"{folder} has no train-images-idx3-ubyte, gzipped or not; it has {names}",
            "give a folder with MNIST's four files, or an IDX file of images",
        )
    return found


def _pair(path: Path) -> IdxFiles:
    """A file of images, and that of their labels beside it if there is one."""
    if not path.exists():
        raise missing(path)
    if path.is_dir():
        raise DataError(f"{path} is a folder", "give the IDX file of the images of one split")
    labels = path.with_name(_label_name(path.name))
    return IdxFiles(path, labels if labels != path and labels.is_file() else None)


def _label_name(name: str) -> str:
    return name.replace("images", "labels").replace("idx3", "idx1")


def _read(path: Path, magic: int) -> np.ndarray:
    data = unzipped(path)
    shape = _shape(path, data[:16], magic)
    start = 4 + 4 * len(shape)
    if len(data) - start != prod(shape):
        much = "cut short" if len(data) - start < prod(shape) else "longer than it says"
        raise DataError(
            f"{path} is {much}: {shape[0]:,} {_WHAT[magic]} take {prod(shape):,} bytes, it has {len(data) - start:,}",
            _AGAIN,
        )
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)


def _shape(path: Path, head: bytes, magic: int) -> tuple[int, ...]:
    """What the header says of a file, which must be one of images, or of labels."""
    if not head:
        raise DataError(f"{path} is empty (0 bytes)", _AGAIN)
    found = int.from_bytes(head[:4], "big") if len(head) >= 4 else -1
    if found in _WHAT and found != magic:
        other = "" if magic == IMAGES else ", whose name says labels"
        raise DataError(
            f"{path}{other} is a file of {_WHAT[found]}, not of {_WHAT[magic]}",
            "give the file of images; that of their labels lies beside it, under the same name with labels and idx1",
        )
    if found != magic:
        raise DataError(
            f"{path} is not an IDX file of {_WHAT[magic]}: it begins with {head[:4].hex(' ')}, not "
            f"{magic.to_bytes(4, 'big').hex(' ')}",
            "give files in MNIST's format: unsigned bytes, images of one size, gzipped or not",
        )
    dimensions = 3 if magic == IMAGES else 1
    if len(head) < 4 + 4 * dimensions:
        raise DataError(f"{path} is cut short: it ends inside its header", _AGAIN)
    shape = struct.unpack(f">{dimensions}I", head[4 : 4 + 4 * dimensions])
    if not prod(shape):
        size = f" of {size_text(shape[1:])} pixels" if magic == IMAGES and shape[0] else ""
        raise DataError(f"{path} has no {_WHAT[magic]}{size}", "give a file with at least one")
    return shape
