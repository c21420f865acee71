"""A translator that learnt to write its source backwards, trained once for all tests of this folder."""

import pytest

from tiny_reverser import make_marian, make_tokenizer, train_to_reverse


@pytest.fixture(scope="session")
def words():
    return make_tokenizer()


@pytest.fixture(scope="session")
def reverser(words):
    return train_to_reverse(make_marian(scale=1.0, d_model=48, init_std=0.14), words)


@pytest.fixture(scope="session")
def reverser_folder(reverser, words, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reverser") / "model"
    reverser.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
