"""Whose words are whose: padding is cut off and said, another tokenizer is refused."""

import pytest
from transformers import BertTokenizerFast

from limbeck.core.errors import MismatchError
from limbeck.students.vocabulary import common_vocab, rows_of, vocab_size_of
from tiny import VOCABULARY, make_tokenizer
from tiny_language import make_masked

WORDS = len(VOCABULARY)


def tokenizer_of(words, **how):
    return BertTokenizerFast(vocab={word: index for index, word in enumerate(words)}, **how)


def model(rows=WORDS):
    return make_masked(layers=1, vocab_size=rows)


def test_equal_models_share_all_their_words_and_nothing_is_said():
    found = common_vocab(model(), model(), make_tokenizer(), make_tokenizer())
    assert (found.size, found.note) == (WORDS, "")


def test_equal_padding_is_cut_off_in_silence():
    found = common_vocab(model(40), model(40), make_tokenizer(), make_tokenizer())
    assert (found.size, found.note) == (WORDS, "")


@pytest.mark.parametrize(("teacher", "student"), [(40, 64), (64, 40), (WORDS, 48)])
def test_other_padding_is_cut_off_and_said(teacher, student):
    found = common_vocab(model(teacher), model(student), make_tokenizer(), make_tokenizer())
    assert found.size == WORDS
    assert f"the teacher has {teacher} output rows and the student {student}" in found.note
    assert f"on the {WORDS} tokens they share" in found.note


@pytest.mark.parametrize("whose", ["teacher", "student"])
def test_tokens_added_at_the_end_are_left_out(whose):
    more = make_tokenizer()
    more.add_tokens(["<one>", "<two>"])
    wide, narrow = model(WORDS + 2), model()
    given = (wide, narrow, more, make_tokenizer()) if whose == "teacher" else (narrow, wide, make_tokenizer(), more)
    found = common_vocab(*given)
    assert found.size == WORDS
    assert str(WORDS + 2) in found.note


def test_added_tokens_in_the_room_of_the_padding():
    """Both projections have as many rows, but one of them is a word to one model only."""
    more = make_tokenizer()
    more.add_tokens(["<one>"])
    found = common_vocab(model(40), model(40), more, make_tokenizer())
    assert found.size == WORDS


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([*VOCABULARY[:5], *reversed(VOCABULARY[5:])], "is another token"),
        ([*VOCABULARY[:5], "odd", *VOCABULARY[5:]], "is another token"),
        ([*VOCABULARY[:-1], "odd"], "is another token"),
        ([*VOCABULARY[:5], *"other words altogether and fewer of them".split()], "is another token"),
    ],
)
def test_another_tokenizer_is_refused_with_the_remedy(words, says):
    for order in (1, -1):
        pair = [make_tokenizer(), tokenizer_of(words)][::order]
        with pytest.raises(MismatchError, match=f"different tokenizers.*{says}") as refused:
            common_vocab(model(64), model(64), *pair)
        assert "shrink the teacher itself" in refused.value.remedy


def test_the_same_words_cut_by_other_rules_are_refused():
    with pytest.raises(MismatchError, match="use different tokenizers"):
        common_vocab(model(), model(), make_tokenizer(), tokenizer_of(VOCABULARY, do_lower_case=False))


@pytest.mark.parametrize("small", ["teacher", "student"])
def test_a_model_with_fewer_words_than_its_tokenizer_is_refused(small):
    pair = {"teacher": model(), "student": model()} | {small: model(WORDS - 1)}
    with pytest.raises(
        MismatchError, match=f"has {WORDS} tokens, but the {small} has embeddings for only {WORDS - 1}"
    ) as refused:
        common_vocab(*pair.values(), make_tokenizer(), make_tokenizer())
    assert "resize" in refused.value.remedy


def test_rows_and_words_of_one_model():
    assert (rows_of(model(64)), vocab_size_of(model(64), make_tokenizer())) == (64, WORDS)
