"""Checksums: what is read is what was written, or it is called damaged.

A small JSON file holds its own checksum. The file that marks a folder as done lists the checksums of the others in it.
CRC-32 finds every changed byte and keeps up with the disk; it guards against damage, not against people."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CHECKSUM, FILES = "checksum", "files"
_CHUNK = 2**22  # bytes


class DamagedError(Exception):
    """A file that is not what was written."""


def unsealed(text: str) -> dict[str, Any]:
    """What was sealed, without its checksum. One that has none is taken as it is: people and earlier versions write
    such files."""
    try:
        content = json.loads(text)
        expected = content.pop(CHECKSUM, None)
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise DamagedError(str(error)) from error
    if expected is not None and expected != of_json(content):
        raise DamagedError("its checksum differs")
    return dict(content)


def read_sealed(path: Path) -> dict[str, Any]:
    try:
        return unsealed(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DamagedError(str(error)) from error


def check_files(folder: Path, expected: Mapping[str, str]) -> None:
    """Raises a DamagedError where a file is gone or differs."""
    for name, checksum in expected.items():
        path = folder / name
        if not path.is_file() or of_file(path) != checksum:
            raise DamagedError(f"{path} {'differs from what was written' if path.exists() else 'is gone'}")


def of_json(content: Mapping[str, Any]) -> str:
    canonical = json.loads(json.dumps(content))  # a tuple is a list when it is read
    return f"{zlib.crc32(json.dumps(canonical, sort_keys=True).encode()):08x}"


def of_file(path: Path) -> str:
    total = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            total = zlib.crc32(chunk, total)
    return f"{total:08x}"
