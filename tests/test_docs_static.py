"""What docs/small-files.md says of static students: its lines of NumPy give Limbeck's probabilities."""

import contextlib
from pathlib import Path

import numpy as np
import pytest

import limbeck
from exporters.test_static import TEXTS, folders
from limbeck.core.vocabulary import take_rows, trimmed
from limbeck.exporters.export import export
from limbeck.students.load import load_saved
from tiny import make_tokenizer
from tiny_language import save

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "small-files.md").read_text(encoding="utf-8")


def block():
    """That opens the file."""
    (found,) = [
        part
        for part in (text.split("```")[0] for text in PAGE.split("```python\n")[1:])
        if "static.safetensors" in part
    ]
    return found


def probabilities(place: Path, text: str) -> dict[str, float]:
    lines, text_there, folder_there = block(), '"a warm and funny film"', '"small-numpy"'
    assert lines.count(text_there) == lines.count(folder_there) == 1
    names: dict = {}
    with contextlib.chdir(place.parent):
        exec(lines.replace(text_there, repr(text)).replace(folder_there, repr(place.name)), names)
    return names["probabilities"]


@pytest.mark.parametrize("to", ["numpy", "numpy-int8"])
def test_the_lines_of_the_page_give_the_same_probabilities(to):
    assert len([line for line in block().splitlines() if line.strip()]) <= 30
    source, exported = folders(to=to)
    for text in ("a warm and funny film", "good", "", *TEXTS[:10]):
        by_hand = probabilities(exported, text)
        assert np.isfinite(list(by_hand.values())).all()
        for folder, tolerance in ((exported, 1e-5), (source, 2e-2)) if text else ():
            (ours,) = limbeck.predict(folder, [text], all_probabilities=True)
            assert by_hand == pytest.approx(of_classes(ours), abs=tolerance)


def of_classes(answer):
    return {
        name.removeprefix("probability_"): value for name, value in answer.items() if name.startswith("probability_")
    }


def test_also_after_pieces_were_taken_away(tmp_path):
    model, tokenizer = load_saved(folders()[0])
    small, old_ids = trimmed(make_tokenizer(), tokenizer("a warm funny film with a dull plot")["input_ids"])
    take_rows(model, old_ids)
    source = save(model, small, tmp_path / "model")
    exported = export(source, "numpy", tmp_path / "exported", [("a dull film", ""), ("a funny plot", "")]).path
    (ours,) = limbeck.predict(source, ["a warm film with a plot"], all_probabilities=True)
    found = probabilities(exported, "a warm film with a plot")
    assert found == pytest.approx(of_classes(ours), abs=5e-3)
