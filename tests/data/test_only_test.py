"""A model that is only measured: the whole file is the test split, and nothing is cut or drawn."""

import pytest

from limbeck.core.errors import DataError
from limbeck.data.language.corpus import load_language
from limbeck.data.seq2seq.pairs import read_parallel
from limbeck.data.settings import BlockSettings, DataSettings, ParallelSettings, WindowSettings
from limbeck.data.span.questions import read_questions
from limbeck.data.span.windows import encode_questions
from limbeck.data.text.examples import read_texts
from limbeck.data.token.sentences import read_sentences
from limbeck.data.token.windows import encode_sentences
from tiny import make_rows, make_tokenizer
from tiny_language import make_text
from tiny_places import make_questions, make_sentences
from tiny_sources import make_sources, mirrored

SETTINGS, WINDOWS = DataSettings(limit=5), WindowSettings()
PAIRS = [{"source": source, "target": mirrored(source)} for source in make_sources(20)]


def sentences(data):
    return encode_sentences(
        read_sentences(SETTINGS, WINDOWS, data, only_test=True), make_tokenizer(), SETTINGS, WINDOWS
    )


def questions(data):
    return encode_questions(
        read_questions(SETTINGS, WINDOWS, data, only_test=True), make_tokenizer(), SETTINGS, WINDOWS
    )


def language(data):
    blocks = BlockSettings(length=16, pack=False)
    return load_language(SETTINGS, blocks, "mask-fill", make_tokenizer(), data, only_test=True)


READERS = {
    "text": (lambda data: read_texts(SETTINGS, data, only_test=True), make_rows(20)),
    "token": (sentences, make_sentences(20)),
    "span": (questions, make_questions(20)),
    "seq2seq": (lambda data: read_parallel(SETTINGS, ParallelSettings(), data, only_test=True), PAIRS),
    "language": (language, [{"text": text} for text in make_text(20)]),
}


@pytest.mark.parametrize("kind", READERS)
def test_the_whole_file_is_the_test_split(kind):
    read, rows = READERS[kind]
    found = read(rows)
    assert [len(found.train), len(found.dev)] == [0, 0]
    assert len(found.test) >= len(rows)
    assert found.card.splits.keys() == {"test"}
    assert found.card.read == len(rows)


@pytest.mark.parametrize("kind", READERS)
def test_of_several_splits_the_test_split_is_taken(kind):
    read, rows = READERS[kind]
    found = read({"train": rows, "dev": rows[:4], "test": rows[4:11]})
    assert found.card.read == 7
    assert found.card.source.endswith("[test]")


@pytest.mark.parametrize(("kind", "label"), [("text", "label"), ("token", "tags"), ("span", "answers")])
def test_a_split_without_labels_is_passed_over_and_a_file_without_any_refused(kind, label):
    read, rows = READERS[kind]
    bare = [{**row, label: None} for row in rows[:6]]
    assert read({"train": rows, "dev": rows[:4], "test": bare}).card.source.endswith("[dev]")
    with pytest.raises(DataError, match="has no labels, so nothing can be measured on it"):
        read(bare)
