"""Real questions, where they lie beside the project."""

from pathlib import Path

import pytest

from limbeck.data.settings import DataSettings, WindowSettings
from limbeck.data.span.questions import read_questions
from limbeck.data.span.windows import encode_questions
from tiny_language import byte_level

SHARED = Path(__file__).parents[4] / "shared" / "data"
SAMPLE = SHARED / "squad_sample" / "squad_sample.jsonl.gz"
XQUAD = SHARED / "xquad_squad11_dev_subset"

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not (SAMPLE.exists() and XQUAD.exists()), reason="../shared/data is not there"),
]


@pytest.mark.slow
def test_every_answer_is_found_again_from_its_tokens():
    files = {"train": str(SAMPLE), "dev": str(XQUAD / "xquad.de.json.gz"), "test": str(XQUAD / "xquad.en.json.gz")}
    settings = DataSettings(max_length=384, limit=200, **files)
    found = encode_questions(
        read_questions(settings, WindowSettings()), byte_level(), settings, WindowSettings(stride=128)
    )
    assert found.card.read == 4330 + 1190 + 1190
    assert found.card.dropped == {}
    assert not found.rows.nullable
    for split in ("train", "test"):
        has_label = set()
        for window in found.splits[split].windows:
            item = found.items(split)[window.item]
            if window.has_label.all():
                has_label.add(window.item)
                start, end = window.where[window.labels]
                assert any(answer.strip() in item.context[start[0] : end[1]] for answer in item.answers)
        assert len(has_label) > 0.99 * len(found.items(split))
