"""Fixtures every test may use."""

import gc
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from accelerate.utils import memory

from forked import Forked
from limbeck.measure import speed_process
from running import TELL, Started
from tiny import make_classifier, make_rows, make_tokenizer, write_csv
from tiny_reverser import make_marian, train_to_reverse
from tiny_reverser import make_tokenizer as make_words


def pytest_collection_finish() -> None:
    """The Trainer collects garbage after each training. torch's and transformers' million objects are none, and without
    a GPU nothing waits to be freed."""
    gc.collect()
    gc.freeze()
    memory.clear_device_cache = lambda garbage_collection=False: None


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


@pytest.fixture(scope="session")
def words():
    """The tokenizer of the reverser."""
    return make_words()


@pytest.fixture(scope="session")
def reverser(words):
    """A translator that learnt to write its source backwards."""
    return train_to_reverse(make_marian(scale=1.0, d_model=48, init_std=0.14), words)


@pytest.fixture(scope="session")
def reverser_folder(reverser, words, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reverser") / "model"
    reverser.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


@pytest.fixture
def started(tmp_path_factory, monkeypatch) -> Callable[[], list[Started]]:
    """The Python processes that were started since and have ended, in no order; this one is none of them."""
    site, told = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("told")
    (site / "sitecustomize.py").write_text(TELL.format(folder=str(told)), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH")))))
    return lambda: [Started(*json.loads(path.read_text(encoding="utf-8"))) for path in told.iterdir()]


@pytest.fixture
def forked_probes(monkeypatch) -> None:
    """Models are timed in processes that need not import torch anew."""
    monkeypatch.setattr(speed_process, "subprocess", SimpleNamespace(Popen=Forked, PIPE=subprocess.PIPE))
