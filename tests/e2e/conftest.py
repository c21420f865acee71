"""A teacher that knows something, made by `limbeck train`."""

from pathlib import Path

import pytest

from running import QUICK, limbeck

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
