"""What is read is what was written, or it is called damaged."""

import json

import pytest

from flipping import flip
from limbeck.core.checksum import DamagedError, check_files, checksums, read_sealed, unsealed, write_sealed


def test_a_sealed_file_is_read_as_it_was_written(tmp_path):
    content = {"score": 0.1 + 0.2, "rows": (1, 2), "name": "naïve", "nan": None}
    file = write_sealed(tmp_path / "x.json", content)
    assert read_sealed(file) == {**content, "rows": [1, 2]}
    assert json.loads(file.read_text())["checksum"]


def test_every_flip_is_found_or_changes_nothing(tmp_path):
    file = write_sealed(tmp_path / "x.json", {"score": 0.125, "rows": [1, 2]})
    whole, silent = file.read_bytes(), 0
    for place in range(len(whole)):
        for bit in range(8):
            flip(file, place, bit)
            try:
                read = read_sealed(file)
                silent += 1
                assert {"score": 0.125, "rows": [1, 2]}.items() <= read.items()
            except DamagedError:
                pass
            file.write_bytes(whole)
    assert silent < len(whole)  # white space, and the name of the checksum


def test_without_a_checksum_a_file_is_taken_as_it_is():
    assert unsealed('{"a": 1}') == {"a": 1}
    for broken in ("", "[]", "1.5", "null", "{", "[" * 100_000):
        with pytest.raises(DamagedError):
            unsealed(broken)


def test_files_of_a_folder(tmp_path):
    (tmp_path / "model").mkdir()
    for name in ("model/a", "b", "marker"):
        (tmp_path / name).write_text(name * 100)
    known = checksums(tmp_path, leave="marker")
    assert known.keys() == {"model/a", "b"}
    assert checksums(tmp_path, "model").keys() == {"model/a"}
    check_files(tmp_path, known)
    flip(tmp_path / "model" / "a", 7)
    with pytest.raises(DamagedError, match="differs"):
        check_files(tmp_path, known)
    (tmp_path / "b").unlink()
    with pytest.raises(DamagedError, match="b is gone"):
        check_files(tmp_path, {"b": known["b"]})
