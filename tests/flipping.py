"""One byte of a file changed, at places that are the same in every run of the tests."""

import random
import shutil
from pathlib import Path


def offsets(file: Path, some: int = 3) -> list[int]:
    """First, header, middle and last byte, and some others."""
    size = file.stat().st_size
    draw = random.Random(f"{file.suffix} {size}")
    chosen = {0, 8, size // 2, size - 1, *(draw.randrange(size) for _ in range(some if size else 0))}
    return sorted(place for place in chosen if 0 <= place < size)


def flip(file: Path, place: int, bit: int = 0) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1 << bit
    file.write_bytes(bytes(content))


def every_flip(folder: Path, scratch: Path, some: int = 3):
    """A copy of the folder for every file and place, with that one byte changed; and which it is."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        for number, place in enumerate(offsets(file, some)):
            shutil.rmtree(scratch, ignore_errors=True)
            shutil.copytree(folder, scratch)
            flip(scratch / file.relative_to(folder), place, bit=number % 7)
            yield scratch, f"{file.name} at {place}"
