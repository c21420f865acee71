"""Checksums as they are written; limbeck_runtime.checksum has how they are made and read, so that both agree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from limbeck.core.files import write_text
from limbeck_runtime.checksum import CHECKSUM as CHECKSUM
from limbeck_runtime.checksum import FILES as FILES
from limbeck_runtime.checksum import DamagedError as DamagedError
from limbeck_runtime.checksum import check_files as check_files
from limbeck_runtime.checksum import of_file, of_json
from limbeck_runtime.checksum import read_sealed as read_sealed
from limbeck_runtime.checksum import unsealed as unsealed


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same with its checksum, as it is written."""
    return {**content, CHECKSUM: of_json(content)}


def write_sealed(path: Path, content: Mapping[str, Any]) -> Path:
    return write_text(path, json.dumps(sealed(content), indent=1) + "\n")


def checksums(folder: Path, *parts: str, leave: str = "") -> dict[str, str]:
    """File → checksum, of all that a folder holds, or of these files and folders in it; without the one to `leave`."""
    found = [path for part in parts or ("",) for path in (folder / part, *(folder / part).rglob("*"))]
    files = sorted(path for path in found if path.is_file() and path.name != leave)
    return {path.relative_to(folder).as_posix(): of_file(path) for path in files}
