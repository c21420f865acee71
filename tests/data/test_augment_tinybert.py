"""Words that fit: TinyBERT's augmentation with a real, tiny masked language model and its embeddings."""

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertModel, BertTokenizerFast

from limbeck.data.augment import augment
from limbeck.data.settings import AugmentSettings
from limbeck.data.text.examples import Examples
from limbeck.data.tinybert import (
    STOP_WORDS,
    MaskedModel,
    Neighbours,
    Place,
    Replacer,
    changeable,
    copies_of,
    whole_words,
    words_from,
)
from limbeck.data.words import split

WORDS = "good great fine lovely bad poor dull film movie plot story actor scene long short silly".split()
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "was", "a", ".", ",", "3", "##s", "##ly", *WORDS]
TEXTS = [
    "The film was good , 3 stars .",
    "a dull plot",
    "the silly movies was a bad story , a poor story",
    "the was a .",
]


def make_model(kind=BertForMaskedLM):
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    model = kind(BertConfig(vocab_size=len(VOCABULARY), max_position_embeddings=64, **shape))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizerFast(vocab={word: number for number, word in enumerate(VOCABULARY)}, model_max_length=40)


@pytest.fixture(scope="module")
def masker(tokenizer):
    return words_from(make_model(), tokenizer)


def examples(texts=TEXTS, pairs=()):
    count = len(texts)
    return Examples(np.arange(count), list(texts), list(pairs), np.zeros(count, np.int64), np.ones(count, bool))


def made(masker, given=None, **knobs):
    return augment(given or examples(), AugmentSettings(kind="tinybert", **knobs), masker=masker)


# ---- what may change


def test_nothing_changes_without_chance(masker):
    assert len(made(masker, replace=0.0)) == 0


@pytest.mark.parametrize("copies", [1, 4, 30])
def test_no_row_has_more_copies_than_asked_for(masker, copies):
    for text in TEXTS:
        found = list(Replacer(AugmentSettings(), masker, copies).copies([(text, "")]))
        assert len(found) == len(set(found)) <= copies
        assert (text, "") not in found
    assert len(list(Replacer(AugmentSettings(), masker, copies).copies([(TEXTS[2], "")]))) == copies


def test_stop_words_numbers_and_signs_never_change(masker):
    assert [split(TEXTS[0]).words[place] for place in changeable(split(TEXTS[0]))] == ["film", "good", "stars"]
    for text in TEXTS:
        before = split(text).words
        fixed = [place for place, word in enumerate(before) if not word.isalpha() or word.lower() in STOP_WORDS]
        found = list(Replacer(AugmentSettings(replace=1.0), masker, 30).copies([(text, "")]))
        assert (len(found) == 0) == (len(fixed) == len(before))
        for new, _ in found:
            assert [split(new).words[place] for place in fixed] == [before[place] for place in fixed]


def test_words_change_as_often_as_asked(masker):
    text = " ".join(WORDS * 20)
    [(new, _)] = Replacer(AugmentSettings(replace=0.4), masker, 1).copies([(text, "")])
    changed = sum(a != b for a, b in zip(split(text).words, split(new).words, strict=True))
    assert abs(changed - 0.4 * 320) <= 3 * (320 * 0.4 * 0.6) ** 0.5


def test_a_capital_stays(masker):
    found = made(masker, examples(["Film was good"]), replace=1.0)
    assert len(found) > 3
    assert all(text[0].isupper() and text[1:].islower() for text in found.texts)


def test_of_a_pair_one_text_changes_beside_the_other_as_it_was(masker):
    texts, pairs = ["a dull plot", "good film"], ["the movie was long", "bad story"]
    found = made(masker, examples(texts, pairs), copies=10)
    rows = set(zip(texts, pairs, strict=True))
    for text, pair in zip(found.texts, found.pairs, strict=True):
        assert any((text == a) != (pair == b) for a, b in rows)
    assert set(found.texts) > set(texts)
    assert set(found.pairs) > set(pairs)


def test_the_order_of_rows_does_not_matter(masker):
    turned = examples(TEXTS[::-1])
    assert made(masker).texts == made(masker, turned).texts
    assert made(masker, seed=1).texts != made(masker).texts


@pytest.mark.parametrize(("rows", "copies"), [(2_490, 30), (67_349, 20), (104_743, 20), (363_846, 10)])
def test_the_number_of_copies_follows_the_paper(rows, copies):
    assert copies_of(rows) == copies


def test_someone_must_find_words():
    with pytest.raises(ValueError, match="Neighbours"):
        made(None)


# ---- who finds the words


def test_only_pieces_that_make_a_word_are_words(tokenizer):
    found = whole_words(tokenizer, len(VOCABULARY))
    assert set(found.values()) == {"the", "was", "a", *WORDS}
    assert all(VOCABULARY[number] == word for number, word in found.items())


def test_the_models_best_words_in_order(masker, tokenizer):
    assert isinstance(masker, MaskedModel)
    [found] = masker.candidates([Place("the ", "film", " was good")], 6)
    inputs = tokenizer("the [MASK] was good", return_tensors="pt")
    with torch.no_grad():
        logits = make_model()(**inputs).logits[0, 2]
    order = [VOCABULARY[number] for number in logits.argsort(descending=True).tolist()]
    assert found == [word for word in order if word in {"the", "was", "a", *WORDS} - {"film"}][:6]


def test_the_hidden_word_is_not_shown_to_the_model(masker):
    asked = [Place("the ", word, " was good") for word in ("film", "movie", "dull")]
    film, movie, dull = ([*found] for found in masker.candidates(asked, 30))
    assert [w for w in film if w not in ("movie", "dull")] == [w for w in movie if w not in ("film", "dull")]
    assert [w for w in film if w not in ("movie", "dull")] == [w for w in dull if w not in ("film", "movie")]


def test_batches_and_padding_do_not_matter(masker):
    asked = [Place("the ", "film", " was good"), Place("", "dull", " plot , a long and silly story , a bad scene")] * 40
    together = masker.candidates(asked, 5)
    assert together == [masker.candidates([place], 5)[0] for place in asked]


def test_words_of_several_pieces_take_their_neighbours(masker, tokenizer):
    place = Place("the ", "movies", " was bad")
    [found] = masker.candidates([place], 5)
    table = make_model().get_input_embeddings().weight.detach().double()
    mean = (table[VOCABULARY.index("movie")] + table[VOCABULARY.index("##s")]) / 2
    cosines = torch.nn.functional.cosine_similarity(mean[None], table, dim=1)
    order = [VOCABULARY[number] for number in cosines.argsort(descending=True).tolist()]
    assert found == [word for word in order if word in {"the", "was", "a", *WORDS}][:5]
    assert Neighbours(table, tokenizer).candidates([place], 5) == [found]


def test_without_a_language_model_neighbours_serve_for_all(tokenizer):
    found = words_from(make_model(BertModel), tokenizer)
    assert isinstance(found, Neighbours)
    assert len(made(found)) > 20


def test_an_unknown_word_has_no_candidates(masker):
    assert masker.candidates([Place("a ", "ζ", " film"), Place("a ", "film", "")], 3)[0] == []


def test_a_gap_far_inside_a_long_text_is_seen_with_what_is_near(masker):
    far = "story " * 200
    near, lost = (masker.candidates([Place(before, "film", " was good")], 4) for before in (far, "the "))
    assert len(near[0]) == len(lost[0]) == 4
    unknown = Place("." * 200, "film", " was good")  # a piece for every sign: the gap lies beyond the last one read
    assert masker.candidates([unknown], 4) == masker.near.candidates([unknown], 4)
