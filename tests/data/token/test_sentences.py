"""Tagged sentences: from files to windows of tokens."""

import gzip

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Sequence, Value
from transformers import CanineTokenizer

from limbeck.core.errors import DataError, KnobError, MismatchError, ModelError
from limbeck.data.batches import Collator, batches, to_batch
from limbeck.data.settings import DataSettings, WindowSettings
from limbeck.data.token.sentences import read_sentences, scheme
from limbeck.data.token.windows import encode_sentences
from limbeck_runtime.tags import is_plain
from tiny import make_tokenizer
from tiny_language import byte_level, wordpiece
from tiny_places import TAGS, make_sentences

CONLL = """-DOCSTART- -X- -X- O

the DT I-NP O
film NN I-NP B-WORK
understanding NN I-NP I-WORK

# NN I-NP O
was VBD I-VP O
"""


def load(data=None, tokenizer=None, known=(), places=None, watcher=None, **settings):
    more = {"watcher": watcher} if watcher else {}
    places = WindowSettings(**(places or {}))
    settings = DataSettings(**settings)
    found = read_sentences(settings, places, data, known)
    return encode_sentences(found, tokenizer or wordpiece(), settings, places, **more)


def three(path, text=CONLL):
    """A file that is train, dev and test."""
    path.write_text(text, encoding="utf-8")
    return {"train": str(path), "dev": str(path), "test": str(path)}


def sentences(corpus, split="train"):
    return [(item.words, item.tags) for item in corpus.items(split)]


def test_a_conll_file(tmp_path):
    corpus = load(**three(tmp_path / "a.conll"))
    assert sentences(corpus) == [
        (("the", "film", "understanding"), ("O", "B-WORK", "I-WORK")),
        (("#", "was"), ("O", "O")),
    ]
    assert corpus.task.labels == ("O", "B-WORK", "I-WORK")
    assert corpus.card.splits["train"].per_class == {"O": 3, "B-WORK": 1, "I-WORK": 1}
    assert any("IOB2" in note for note in corpus.card.notes)
    assert any("2 of dev" in note for note in corpus.card.notes)


@pytest.mark.parametrize("name", ["train.bio", "train.txt", "train.iob.gz"])
def test_other_names_windows_line_ends_and_gzip(tmp_path, name):
    content = CONLL.replace("\n", "\r\n").encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    place = str(tmp_path / name)
    assert len(sentences(load(train=place, dev=place, test=place))) == 2


def test_a_folder_of_conll_files(tmp_path):
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.conll").write_text(CONLL)
    assert [len(load(train=str(tmp_path)).items(split)) for split in ("train", "dev", "test")] == [2, 2, 2]
    (tmp_path / "eng.train.conll").write_text(CONLL)
    assert len(load(train=str(tmp_path)).train) == 2  # the exact name wins
    (tmp_path / "train.bio").write_text(CONLL)
    with pytest.raises(DataError, match=r"several train files \(train.bio, train.conll\)"):
        load(train=str(tmp_path))


def test_columns_of_a_conll_file_are_numbers(tmp_path):
    files = three(tmp_path / "a.conll")
    assert sentences(load(places={"tag_column": "2"}, **files))[0][1] == ("DT", "NN", "NN")
    assert sentences(load(places={"word_column": "2"}, **files))[0][0] == ("DT", "NN", "NN")
    with pytest.raises(KnobError, match=r"windows\.tag_column.*has 4 columns"):
        load(places={"tag_column": "5"}, **files)
    assert not load(places={"tag_column": "none"}, known=TAGS, **files).train.has_label.any()


def test_columns_of_a_table_are_names(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"tokens": ["a"], "pieces": ["film", "plot"], "tags": ["O"], "kinds": ["B-X", "O"]}'
    )
    place = str(tmp_path / "a.jsonl")
    files = {"train": place, "dev": place, "test": place}
    chosen = {"word_column": "pieces", "tag_column": "kinds"}
    assert sentences(load(places=chosen, **files)) == [(("film", "plot"), ("B-X", "O"))]
    with pytest.raises(DataError, match="has no column '2'; its columns: tokens, pieces, tags, kinds"):
        load(places={"word_column": "2"}, **files)


def test_comments_are_left_out_and_a_word_that_is_one_is_not(tmp_path):
    text = "# id = 1 of some document\nthe\tO\nfilm\tB-X\n\n#\tO\nwas\tO\n"
    assert [words for words, _ in sentences(load(**three(tmp_path / "a.conll", text)))] == [
        ("the", "film"),
        ("#", "was"),
    ]


def test_a_word_between_tabs_may_hold_a_space(tmp_path):
    assert sentences(load(**three(tmp_path / "a.conll", "the film\tO\nwas\tB-X\n")))[0][0] == ("the film", "was")


def test_a_line_with_another_number_of_columns(tmp_path):
    with pytest.raises(DataError, match=r"a\.conll, line 5 \(sentence 2\): 1 column, but 2 before"):
        load(**three(tmp_path / "a.conll", "the O\nfilm O\n\nwas O\ngood\n"))


def test_unequal_numbers_of_words_and_tags():
    rows = [{"words": ["a", "film"], "tags": ["O", "O"]}, {"words": ["a"], "tags": ["O", "O"]}]
    with pytest.raises(DataError, match="row 2: 1 words in column 'words', but 2 tags in column 'tags'"):
        load({"train": rows, "dev": rows, "test": rows})


def test_text_where_a_list_should_be():
    rows = [{"tokens": "a film", "tags": "O O"}]
    with pytest.raises(DataError, match="row 1: column 'tokens' holds str 'a film', not a list"):
        load({"train": rows, "dev": rows, "test": rows})


def test_a_tag_in_test_that_train_has_not(tmp_path):
    files = three(tmp_path / "a.conll")
    (tmp_path / "b.conll").write_text("the O\n\nfilm O\nplot B-TOWN\n")
    files["test"] = str(tmp_path / "b.conll")
    with pytest.raises(DataError, match=r"b\.conll, line 3 \(sentence 2\), word 2 \('plot'\): the tag 'B-TOWN'"):
        load(**files)
    assert load(classes="O,B-WORK,I-WORK,B-TOWN", **files).task.labels == ("O", "B-WORK", "I-WORK", "B-TOWN")


def test_class_labels_of_a_dataset(tmp_path):
    features = Features({"tokens": Sequence(Value("string")), "ner_tags": Sequence(ClassLabel(names=list(TAGS)))})
    rows = {"tokens": [["good", "film"], ["a", "plot"]], "ner_tags": [[1, 0], [0, -100]]}
    part = Dataset.from_dict(rows, features)
    found = load(DatasetDict({"train": part, "validation": part, "test": part}))
    assert sentences(found) == [(("good", "film"), ("B-GOOD", "O")), (("a", "plot"), ("O", ""))]
    assert found.task.labels == TAGS
    assert found.train.has_label.tolist() == [True, True, True, False]
    part.to_parquet(tmp_path / "train.parquet")
    place = str(tmp_path / "train.parquet")
    assert sentences(load(train=place, dev=place, test=place)) == sentences(found)


def test_numbers_without_names_are_plain_tags_in_rising_order():
    rows = [{"tokens": ["a"] * 12, "tags": list(range(12))}]
    found = load({"train": rows, "dev": rows, "test": rows})
    assert found.task.labels == tuple(map(str, range(12)))
    assert any("--data.classes" in note for note in found.card.notes)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ([["O", "B-X", "I-X", "B-X"]], "IOB2"),
        ([["I-X", "I-X", "O"], ["I-Y", "I-X", "B-X"]], "IOB1"),
        ([["I-X", "O", "B-X"]], "IOB, mixed"),
        ([["B-X", "E-X", "S-Y", "O"]], "IOBES"),
        ([["B-X", "L-X", "U-Y", "O"]], "BILOU"),
        ([["B", "I", "O"]], "IOB2"),
        ([["NOUN", "VERB", "O"]], "plain"),
    ],
)
def test_the_dialect_is_found_in_the_data(tags, expected):
    labels = sorted({tag for sentence in tags for tag in sentence})
    assert scheme(tags, labels) == expected
    assert is_plain(labels) == (expected == "plain")


def test_a_word_is_asked_about_at_its_first_token():
    rows = [{"tokens": ["Understanding", "films", ",", "very", "good"], "tags": ["B-X", "O", "O", "O", "B-X"]}]
    tokenizer = wordpiece()
    window = load({"train": rows, "dev": rows, "test": rows}).train.windows[0]
    pieces = tokenizer.convert_ids_to_tokens(window.inputs["input_ids"].tolist())
    assert pieces == ["[CLS]", "under", "##stand", "##ing", "film", "##s", ",", "very", "good", "[SEP]"]
    assert np.flatnonzero(window.predicted).tolist() == [1, 4, 6, 7, 8]
    assert window.labels.tolist() == [1, 0, 0, 0, 1]
    assert window.where.tolist() == [0, 1, 2, 3, 4]


def test_byte_level_tokens_find_their_words():
    rows = [{"tokens": ["très", "good", "plot", "été"], "tags": ["B-X", "O", "O", "O"]}]
    tokenizer = byte_level()
    window = load({"train": rows, "dev": rows, "test": rows}, tokenizer).train.windows[0]
    places = np.flatnonzero(window.predicted).tolist()
    assert window.where.tolist() == [0, 1, 2, 3]
    ids = window.inputs["input_ids"].tolist()
    pieces = [tokenizer.decode(ids[a:b]) for a, b in zip(places, [*places[1:], len(ids)], strict=True)]
    assert [piece.strip() for piece in pieces] == ["très", "good", "plot", "été"]


def test_a_long_sentence_is_read_in_windows_and_every_word_asked_once():
    words = ["the", "understanding", "film"] * 20
    rows = [{"tokens": words, "tags": ["O", "B-X", "O"] * 20}]
    found = load({"train": rows, "dev": rows, "test": rows}, places={"stride": 8}, max_length=24)
    assert max(found.train.lengths) == 24
    assert sorted(word for window in found.train.windows for word in window.where) == list(range(60))
    for window in found.train.windows:
        assert window.labels.tolist() == [int(word % 3 == 1) for word in window.where]
    inner = found.train.windows[1]  # no word of it is asked at the very edge: the neighbours see it better
    assert np.flatnonzero(inner.predicted)[0] > 2
    assert np.flatnonzero(inner.predicted)[-1] < 22
    assert any("read in" in note for note in found.card.notes)
    assert len(set(found.train.uids.tolist())) == len(found.train)


def test_a_word_the_tokenizer_does_not_see_is_not_lost():
    rows = [{"tokens": ["the", "\u200d", "", "film"], "tags": ["O", "O", "O", "O"]}, {"tokens": [""], "tags": ["O"]}]
    found = load({"train": rows, "dev": rows, "test": rows})
    assert found.train.windows[0].where.tolist() == [0, 3]
    assert len(found.train.row_uids) == 2
    assert any("1 sentences hold no word" in note for note in found.card.notes)


def test_empty_sentences_are_dropped_and_counted():
    rows = [{"tokens": ["a"], "tags": ["O"]}, {"tokens": [], "tags": []}]
    assert load({"train": rows, "dev": rows, "test": rows}).card.dropped == {"empty sentence": 3}


def test_dev_and_test_are_cut_by_a_hash_of_the_sentence():
    rows = make_sentences(200)
    found, again = load(rows, make_tokenizer()), load(rows[::-1], make_tokenizer())
    assert sum(len(found.items(split)) for split in ("train", "dev", "test")) == 200
    for split in ("dev", "test"):
        assert 5 <= len(found.items(split)) <= 40
        assert {item.words for item in found.items(split)} == {item.words for item in again.items(split)}
        assert not {item.words for item in found.items(split)} & {item.words for item in found.items("train")}
        assert set(found.splits[split].row_uids.tolist()).isdisjoint(found.train.row_uids.tolist())


def test_too_few_rows_to_cut():
    with pytest.raises(DataError, match="has 12 usable rows: too few to cut dev and test from"):
        load(make_sentences(12), make_tokenizer())


def test_names_do_not_depend_on_order_and_twins_have_their_own():
    rows = make_sentences(60)
    once = load({"train": [*rows, rows[0]], "dev": rows, "test": rows}, make_tokenizer())
    again = load({"train": [rows[0], *rows[::-1]], "dev": rows, "test": rows}, make_tokenizer())
    assert len(set(once.train.uids.tolist())) == 61
    assert set(once.train.uids.tolist()) == set(again.train.uids.tolist())
    assert once.card.duplicates >= 1


def test_the_order_of_a_model_is_taken_over():
    rows = make_sentences(30)
    order = tuple(reversed(TAGS))
    found = load({"train": rows, "dev": rows, "test": rows}, make_tokenizer(), known=order)
    window = found.train.windows[0]
    assert found.task.labels == order
    assert [order[label] for label in window.labels] == list(found.items("train")[window.item].tags)
    lower = [{**row, "tags": [tag.lower() for tag in row["tags"]]} for row in rows]
    spelt = load({"train": lower, "dev": lower, "test": lower}, make_tokenizer(), known=order)
    assert spelt.train.labels.tolist() == found.train.labels.tolist()
    with pytest.raises(MismatchError, match="does not know the label"):
        load({"train": rows, "dev": rows, "test": rows}, make_tokenizer(), known=("O", "B-GOOD"))


def test_sentences_without_tags_need_the_names_from_elsewhere():
    rows = [{"tokens": row["tokens"]} for row in make_sentences(30)]
    found = load({"train": rows, "dev": rows, "test": rows}, make_tokenizer(), known=TAGS)
    assert found.task.labels == TAGS
    assert not found.train.has_label.any()
    with pytest.raises(DataError, match="no word has a tag"):
        load({"train": rows, "dev": rows, "test": rows}, make_tokenizer())


def test_a_slow_tokenizer_is_refused():
    with pytest.raises(ModelError, match="CanineTokenizer does not say which characters") as caught:
        load(make_sentences(), CanineTokenizer())
    assert "fast" in caught.value.remedy


def test_batches_lay_rows_end_to_end():
    rows = make_sentences(40)
    found = load({"train": rows, "dev": rows, "test": rows}, make_tokenizer())
    collator = Collator.of(make_tokenizer(), found.task)
    one = to_batch(collator([found.train[0], found.train[5], found.train[1]]), found.task)
    windows = [found.train.windows[place] for place in (0, 5, 1)]
    assert one.labels.tolist() == [label for window in windows for label in window.labels]
    assert one.has_label.shape == one.labels.shape == (int(one.predicted.sum()),)
    assert one.predicted.shape == one.inputs["input_ids"].shape == one.inputs["attention_mask"].shape
    assert not (one.predicted & ~one.inputs["attention_mask"].bool()).any()
    seen = [uid for batch in batches(found.train, collator, 7) for uid in batch.uids.tolist()]
    assert sorted(seen) == sorted(found.train.uids.tolist())


def test_what_is_said(tmp_path):
    class Heard:
        def __init__(self):
            self.lines = []

        def say(self, message):
            self.lines.append(message)

    heard = Heard()
    load(watcher=heard, **three(tmp_path / "a.conll"))
    assert any("words from tokens, tags from tags" in line for line in heard.lines)
    assert any("task: 3 tags of words" in line for line in heard.lines)


def test_limit_draws_the_same_sentences_whatever_their_order():
    rows = make_sentences(60)
    found = [
        load({"train": part, "dev": rows, "test": rows}, make_tokenizer(), limit=20) for part in (rows, rows[::-1])
    ]
    assert len(found[0].items("train")) == 20
    assert {item.words for item in found[0].items("train")} == {item.words for item in found[1].items("train")}


def test_a_dev_file_without_tags():
    rows = make_sentences(150)
    bare = [{"tokens": row["tokens"]} for row in rows[:20]]
    found = load({"train": rows, "dev": rows[:30], "test": bare}, make_tokenizer())
    assert found.card.dropped == {"test without labels": 20}
    assert "cut from" in found.card.splits["test"].source
