"""Fixtures every test may use."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from running import TELL, Started
from tiny import make_classifier, make_rows, make_tokenizer, write_csv


@pytest.fixture(scope="session")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="session")
def teacher_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("teacher") / "teacher"
    make_classifier().save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def reviews(tmp_path_factory) -> Path:
    return write_csv(tmp_path_factory.mktemp("data") / "reviews.csv", make_rows())


@pytest.fixture
def started(tmp_path_factory, monkeypatch) -> Callable[[], list[Started]]:
    """The Python processes that were started since and have ended, in no order; this one is none of them."""
    site, told = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("told")
    (site / "sitecustomize.py").write_text(TELL.format(folder=str(told)), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH")))))
    return lambda: [Started(*json.loads(path.read_text(encoding="utf-8"))) for path in told.iterdir()]
