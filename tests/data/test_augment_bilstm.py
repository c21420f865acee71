"""Masks, words of the same part of speech, n-grams: the rules of the distilled BiLSTM, and the front door."""

import re
import sys
from collections import Counter
from math import sqrt
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limbeck.core.errors import KnobError, ModelError
from limbeck.core.progress import Silent
from limbeck.data.augment import STAGE, augment
from limbeck.data.bilstm import Lexicon, Rewriter, english_tagger, window
from limbeck.data.settings import AugmentSettings, DataSettings
from limbeck.data.text.examples import Examples, read_texts
from limbeck.data.words import split

MASK = "[MASK]"
TEXTS = [
    "a lovely film with a clever plot",
    "the dull story was very long , and the actor was tired",
    "Hardly a great movie; it's quite bland.",
    "warm",
    "one of the funniest scenes in a long and silly picture",
]
PAIRS = ["the plot is clever", "it was long", "nobody liked it", "cold", "the picture is funny"]


def examples(texts=TEXTS, pairs=(), labels=None):
    count = len(texts)
    labels = np.arange(count, dtype=np.int64) % 2 if labels is None else labels
    return Examples(np.arange(count, dtype=np.int64), list(texts), list(pairs), labels, np.ones(count, dtype=bool))


def made(settings=None, given=None, **knobs):
    return augment(given or examples(), settings or AugmentSettings(kind="bilstm", **knobs), mask=MASK)


def by_length(words):
    """A tagger whose answers are known."""
    return [str(len(word)) for word in words]


def rewriter(lexicon=None, **knobs):
    return Rewriter(AugmentSettings(kind="bilstm", **knobs), MASK, lexicon)


# ---- words


@given(st.text())
def test_a_text_split_is_the_text_put_together(text):
    words = split(text)
    assert words.written(words.words) == text
    assert len(words.gaps) == len(words) + 1
    assert not any(word.isspace() or not word for word in words.words)


def test_words_are_parted_from_signs_but_not_from_their_own():
    assert split("It's a well-made, 3.5-star film (n't).").words == (
        *("It's", "a", "well-made", ",", "3.5-star", "film", "(", "n't", ")."),
    )
    assert split("debrauwer 's refusal").words == ("debrauwer", "'s", "refusal")
    assert split("a, b c").written(["x", ",", "y", "z"], 1, 3) == ", y"


# ---- the rules


def test_certain_masks_hide_every_word_and_such_copies_are_left_out():
    words = split(TEXTS[0]).words
    assert rewriter(mask=1.0, pos=0.0).changed(words, TEXTS[0], Random(0)) == [MASK] * 7
    assert len(made(mask=1.0, pos=0.0)) == 0


def test_without_chances_nothing_is_new():
    assert len(made(mask=0.0, pos=0.0, ngram=0.0)) == 0


@pytest.mark.parametrize("length", [1, 2, 3, 5, 6, 9])
def test_every_window_comes_and_as_often_as_it_should(length):
    chance, draws = Random(1), 20_000
    seen = Counter(window(length, 5, chance) for _ in range(draws))
    sizes = range(1, min(5, length) + 1)
    expected = {(s, s + n): 1 / len(sizes) / (length - n + 1) for n in sizes for s in range(length - n + 1)}
    assert seen.keys() == expected.keys()  # the last window and the whole text among them
    for place, p in expected.items():
        assert abs(seen[place] - draws * p) <= 4 * sqrt(draws * p)


def test_ngrams_are_slices_of_at_most_five_words():
    found = made(mask=0.0, pos=0.0, ngram=1.0, copies=50)
    assert len(found) > 20
    for text in found.texts:
        assert len(split(text)) <= 5
        assert any(text in original for original in TEXTS)
    assert all(len(split(text)) <= 2 for text in made(mask=0.0, pos=0.0, ngram=1.0, longest_ngram=2).texts)


def test_a_tenth_is_masked_and_a_tenth_replaced():
    words = [f"w{number:04d}" for number in range(5000)]  # of one kind: hardly one is replaced by itself
    text = " ".join(words)
    found = rewriter(Lexicon([(text, 1)], by_length)).changed(words, text, Random(3))
    masked = sum(new == MASK for new in found)
    replaced = sum(new not in (MASK, old) for new, old in zip(found, words, strict=True))
    sigma = sqrt(5000 * 0.1 * 0.9)
    assert abs(masked - 500) <= 3 * sigma
    assert abs(replaced - 500 * (1 - 1 / 5000)) <= 3 * sigma


def test_words_of_a_tag_are_drawn_as_often_as_they_occur():
    lexicon = Lexicon([("aa aa aa bb ccc", 2), ("bb dd", 1)], by_length)  # aa 6, bb 3, dd 1
    chance, draws = Random(0), 10_000
    seen = Counter(lexicon.like("2", chance.random()) for _ in range(draws))
    for word, share in {"aa": 0.6, "bb": 0.3, "dd": 0.1}.items():
        assert abs(seen[word] - draws * share) <= 3 * sqrt(draws * share * (1 - share))
    assert lexicon.like("2", 0.0) == "aa"
    assert lexicon.like("2", 1 - 2**-53) == "dd"


def test_a_replaced_word_keeps_its_part_of_speech():
    pytest.importorskip("HanTa")
    lexicon = Lexicon([(text, 1) for text in TEXTS], english_tagger())
    kinds = {}  # word → its tags in these texts
    for text in TEXTS:
        for word, tag in zip(split(text).words, lexicon.tags[text], strict=True):
            kinds.setdefault(word, set()).add(tag)
    changed = 0
    for text in TEXTS:
        words = split(text).words
        for seed in range(20):
            found = rewriter(lexicon, mask=0.0, pos=1.0).changed(words, text, Random(seed))
            assert all(tag in kinds[new] for new, tag in zip(found, lexicon.tags[text], strict=True))
            changed += sum(new != old for new, old in zip(found, words, strict=True))
    assert changed > 100


def test_the_tagger_tells_nouns_from_adjectives():
    pytest.importorskip("HanTa")
    tags = english_tagger()("the dull story was very long".split())
    assert [tags[1][:2], tags[2][:2], tags[3][:2]] == ["AJ", "NN", "VB"]


def test_the_spacing_of_a_text_is_kept():
    found = made(mask=0.5, pos=0.0, ngram=0.0, given=examples(["Well,  it's (almost) good!"])).texts
    assert len(found) > 5
    frame = re.compile(r"\S+(,|\[MASK\])  \S+ \S+ \S+")
    assert all(frame.fullmatch(text) for text in found)


def test_pairs_change_the_first_the_second_and_both_by_turns():
    row = ("one two three four five six " * 3, "seven eight nine ten eleven " * 3)
    found = list(rewriter(mask=0.6, pos=0.0, ngram=0.0, copies=30).copies([row]))
    assert len(found) == 30
    changed = [(new[0] != row[0], new[1] != row[1]) for new in found]
    assert all(not second for _, second in changed[0::3])
    assert all(not first for first, _ in changed[1::3])
    assert sum(first for first, _ in changed[0::3]) >= 9
    assert sum(second for _, second in changed[1::3]) >= 9
    assert sum(first and second for first, second in changed[2::3]) >= 8


@pytest.mark.parametrize(("pairs", "count"), [((), 20), (PAIRS, 10)])
def test_the_papers_number_of_copies(pairs, count):
    row = (TEXTS[1], pairs[1] if pairs else "")
    assert len(list(rewriter(mask=0.1, pos=0.0, ngram=0.0).copies([row]))) == count


# ---- the front door


@pytest.mark.parametrize("pairs", [(), PAIRS])
def test_the_order_of_rows_does_not_matter_and_the_seed_does(pairs):
    pytest.importorskip("HanTa")
    given = examples(pairs=pairs)
    first, turned = made(given=given), made(given=given.take([3, 1, 4, 0, 2]))
    assert list(zip(first.texts, first.pairs or first.texts, strict=True)) == list(
        zip(turned.texts, turned.pairs or turned.texts, strict=True)
    )
    assert np.array_equal(first.uids, turned.uids)
    assert bool(first.pairs) == bool(pairs)
    assert set(made(given=given, seed=1).texts) != set(first.texts)


def test_more_copies_hold_the_fewer():
    few, many = (made(pos=0.0, copies=copies) for copies in (5, 10))
    assert set(few.texts) < set(many.texts)


def test_new_texts_are_new_and_named_apart_from_what_was_read():
    data = [{"text": text, "label": label} for text, label in zip(TEXTS * 10, "ab" * 25, strict=True)]
    data += [{"text": f"film {number}", "label": "a"} for number in range(100)]
    corpus = read_texts(DataSettings(), data)
    found = made(pos=0.0, given=corpus.train, copies=40)
    assert len(found) > 50
    assert len(set(found.texts)) == len(found) == len(set(found.uids.tolist()))
    assert not set(found.texts) & set(corpus.train.texts)
    read = {uid for split in corpus.splits.values() for uid in split.uids.tolist()}
    assert not read & set(found.uids.tolist())
    assert found.uids.dtype == np.int64
    assert found.uids.min() >= 0


@pytest.mark.parametrize(
    ("labels", "nothing"),
    [
        (np.zeros(5, dtype=np.int64), -100),
        (np.ones((5, 3), dtype=np.float32), 0),
        (np.ones(5, dtype=np.float32), 0),
    ],
)
def test_new_rows_have_no_label(labels, nothing):
    found = made(pos=0.0, given=examples(labels=labels))
    assert len(found) > 0
    assert not found.has_label.any()
    assert found.labels.dtype == labels.dtype
    assert found.labels.shape == (len(found), *labels.shape[1:])
    assert (found.labels == nothing).all()


def test_a_limit_keeps_a_fixed_draw():
    everything, some = made(pos=0.0), made(pos=0.0, limit=7)
    assert len(some) == 7
    assert some.texts == everything.texts[:7]


class Listener(Silent):
    def __init__(self):
        self.said, self.shares = [], []

    def say(self, message):
        self.said.append(message)

    def at(self, stage, done, note=""):
        assert stage == STAGE
        self.shares.append(done)


def test_what_became_of_every_copy_is_said():
    listener = Listener()
    found = augment(examples(), AugmentSettings(kind="bilstm", pos=0.0, mask=0.2, limit=5), mask=MASK, watcher=listener)
    [line] = listener.said
    assert "5 rows gave" in line
    assert f"{len(found)} of them new" in line
    assert listener.shares == sorted(listener.shares)
    assert listener.shares[-1] == 1.0


@pytest.mark.parametrize("kind", ["none", "auto"])
def test_no_augmentation_gives_no_rows(kind):
    found = made(AugmentSettings(kind=kind), examples(pairs=PAIRS))
    assert len(found) == 0
    assert found.labels.shape == (0,)


def test_the_recipe_decides_what_auto_means():
    assert AugmentSettings().settled("bilstm").kind == "bilstm"
    assert AugmentSettings(kind="tinybert").settled("bilstm").kind == "tinybert"


# ---- refusals


def test_a_missing_tagger_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "HanTa", None)
    monkeypatch.delitem(sys.modules, "HanTa.HanoverTagger", raising=False)
    with pytest.raises(ModelError, match=r"limbeck\[augment\]"):
        made()
    assert len(made(pos=0.0)) > 0


def test_a_tokenizer_without_a_mask_is_refused_unless_none_is_needed():
    with pytest.raises(ModelError, match=r"--augment\.mask 0"):
        augment(examples(), AugmentSettings(kind="bilstm"))
    assert len(augment(examples(), AugmentSettings(kind="bilstm", mask=0.0, pos=0.0))) > 0


def test_chances_beyond_one_are_refused():
    with pytest.raises(KnobError, match=r"augment\.mask = 0\.7 and augment\.pos = 0\.4"):
        made(mask=0.7, pos=0.4)


def test_a_file_in_the_working_folder_is_not_taken_for_the_taggers(tmp_path, monkeypatch):
    pytest.importorskip("HanTa")
    (tmp_path / "morphmodel_en.pgz").write_bytes(b"not a model")
    monkeypatch.chdir(tmp_path)
    assert len(english_tagger()(["film"])) == 1
