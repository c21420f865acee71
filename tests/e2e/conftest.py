"""Teachers that know something, made by `limbeck train`."""

from pathlib import Path

import pytest

from running import BLOCKS, QUICK, WORDS, limbeck
from tiny import make_tokenizer
from tiny_language import byte_level, make_causal, make_masked, make_text, save

LEARN = ("--learning-rate", "3e-3", "--batch-size", "8")


@pytest.fixture(scope="session")
def fitted(tmp_path_factory, teacher_folder, reviews):
    """The folder of `limbeck train`, and what the command said."""
    out = tmp_path_factory.mktemp("fit") / "fitted"
    said = limbeck("train", "--model", teacher_folder, "--data", reviews, "--out", out, *QUICK, *LEARN, "--epochs", 4)
    assert said.code == 0, said.err
    return out, said


@pytest.fixture(scope="session")
def taught(fitted) -> Path:
    return fitted[0] / "model"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    path.write_text("\n\n".join(make_text(80)), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def bare(tmp_path_factory) -> Path:
    """An encoder without a head."""
    return save(make_masked(layers=4, heads=False), make_tokenizer(), tmp_path_factory.mktemp("bare") / "encoder")


@pytest.fixture(scope="session")
def filled(tmp_path_factory, bare, corpus):
    """The folder of `limbeck train --task mask-fill`, and what the command said."""
    out = tmp_path_factory.mktemp("fill") / "filled"
    said = limbeck(
        "train", "--task", "mask-fill", "--model", bare, "--data", corpus, "--out", out, *WORDS, "--epochs", 6
    )
    assert said.code == 0, said.err
    return out, said


@pytest.fixture(scope="session")
def masked(filled) -> Path:
    """A teacher of words under a mask."""
    return filled[0] / "model"


@pytest.fixture(scope="session")
def causal(tmp_path_factory) -> Path:
    """A GPT-2 whose padding is its end of text, with a template for chats and three rows of padding."""
    tokenizer = byte_level()
    place = tmp_path_factory.mktemp("causal") / "gpt2"
    return save(make_causal(tokenizer, layers=2, padding=3), tokenizer, place)


@pytest.fixture(scope="session")
def kept(tmp_path_factory, masked, corpus):
    """A cache of the masked teacher with two masks per block, and what the command said."""
    out = tmp_path_factory.mktemp("cache") / "kept"
    how = (*BLOCKS, "--top", 8, "--threads", 1, "--mask.rounds", 2)
    said = limbeck("cache", "--teacher", masked, "--data", corpus, "--out", out, *how)
    assert said.code == 0, said.err
    return out, said
