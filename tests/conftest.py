"""Fixtures every test may use."""

from pathlib import Path

import pytest

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
