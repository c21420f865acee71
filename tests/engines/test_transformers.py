"""A translation follows from the model, the beam and the length penalty, and its log_p is what the model gives it."""

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from limbeck.core.errors import KnobError
from limbeck.engines import transformers as module
from limbeck.engines.base import EMPTY, batches_by_length
from limbeck.engines.transformers import TransformersEngine
from tiny_reverser import forced_log_p, make_marian, make_tokenizer
from tiny_sources import make_sources, mirrored

pytestmark = pytest.mark.slow

SOURCES = make_sources(30, seed=5, longest=6)


def written(hypotheses):
    return [[each.text for each in row] for row in hypotheses]


def length(text):
    return len(text.split()) + 1


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(16, 200))
def test_batches_hold_every_row_once_within_the_budget_longest_first(lengths, budget):
    batches = batches_by_length(lengths, budget)
    flat = [place for batch in batches for place in batch]
    assert sorted(flat) == [place for place, length in enumerate(lengths) if length]
    assert [lengths[place] for place in flat] == sorted((lengths[place] for place in flat), reverse=True)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[place] for place in batch) <= budget
    for one, two in pairwise(batches):
        assert lengths[one[0]] * (len(one) + 1) > budget, f"{two} could have begun in {one}"


def test_the_reverser_reverses(reverser, words):
    found = TransformersEngine(reverser, words).translate(SOURCES)
    right = sum(row[0].text == mirrored(source) for row, source in zip(found, SOURCES, strict=True))
    assert right >= 20, "the fixture is of use only if it has learnt something"


def test_a_beam_of_one_is_greedy(reverser, words):
    for source, (found,) in zip(SOURCES[:10], TransformersEngine(reverser, words).translate(SOURCES[:10]), strict=True):
        ids, target = words(source, return_tensors="pt").input_ids, [reverser.config.decoder_start_token_id]
        with torch.no_grad():
            while target[-1] != 0 and len(target) < 40:
                logits = reverser(input_ids=ids, decoder_input_ids=torch.tensor([target])).logits[0, -1]
                logits[words.pad_token_id] = -torch.inf
                target.append(int(logits.argmax()))
        assert found.text == words.decode(target[1:-1])


@pytest.mark.parametrize("beam", [1, 3])
def test_what_reaches_the_most_tokens_without_an_end_is_cut(reverser, words, beam):
    whole = TransformersEngine(reverser, words).translate(SOURCES, beam)
    assert not any(row[0].cut for row in whole)
    few = min(length(row[0].text) for row in whole)
    for (short,), (full,) in zip(
        TransformersEngine(reverser, words, longest=few).translate(SOURCES), whole, strict=True
    ):
        assert short.cut == (length(full.text) > few)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_log_p_is_the_teacher_forced_sum(reverser, words, penalty):
    engine = TransformersEngine(reverser, words, length_penalty=penalty)
    for beam, nbest in ((1, 1), (5, 4)):
        for source, row in zip(SOURCES[:8], engine.translate(SOURCES[:8], beam, nbest), strict=True):
            assert len(row) == nbest
            for each in row:
                assert each.log_p == pytest.approx(forced_log_p(reverser, words, source, each.text), abs=1e-4)
            ranks = [each.log_p / length(each.text) ** penalty for each in row]
            assert ranks == sorted(ranks, reverse=True)


@pytest.mark.parametrize("beam", [1, 4])
def test_batching_changes_nothing(reverser, words, beam, monkeypatch):
    whole = TransformersEngine(reverser, words).translate(SOURCES, beam, beam)
    assert written(whole) == written(
        TransformersEngine(reverser, words, batch_tokens=16).translate(SOURCES, beam, beam)
    )
    monkeypatch.setattr(module, "SCORE_BYTES", 2**14)
    assert len(list(TransformersEngine(reverser, words)._batches([5] * 30, 4))) > 3
    assert written(whole) == written(TransformersEngine(reverser, words).translate(SOURCES, beam, beam))
    backwards = TransformersEngine(reverser, words).translate(SOURCES[::-1], beam, beam)
    assert written(whole) == written(backwards)[::-1]


def test_settings_of_the_folder_are_reset_and_left_as_they_were():
    tokenizer, model = make_tokenizer(), make_marian()
    plain = TransformersEngine(model, tokenizer, longest=9).translate(SOURCES, 3, 2)
    strange = {
        "do_sample": True,
        "num_beams": 2,
        "min_length": 8,
        "no_repeat_ngram_size": 1,
        "repetition_penalty": 3.0,
        "length_penalty": -2.0,
        "max_length": 4,
        "temperature": 9.0,
    }
    for name, value in strange.items():
        setattr(model.generation_config, name, value)
    model.train()
    assert TransformersEngine(model, tokenizer, longest=9).translate(SOURCES, 3, 2) == plain
    assert model.training
    assert all(getattr(model.generation_config, name) == value for name, value in strange.items())


def test_forced_and_banned_words_stay():
    tokenizer, model = make_tokenizer(), make_marian()
    before = TransformersEngine(model, tokenizer, longest=6).translate(["one two"])[0][0]
    banned = tokenizer.convert_tokens_to_ids(before.text.split()[0])
    model.generation_config.bad_words_ids = [[model.config.pad_token_id], [banned]]
    model.generation_config.forced_bos_token_id = tokenizer.convert_tokens_to_ids("blue")
    for beam in (1, 3):
        (found,) = TransformersEngine(model, tokenizer, longest=6).translate(["one two"], beam)[0]
        assert found.text.startswith("blue")
        assert before.text.split()[0] not in found.text.split()


def test_a_model_that_raises_is_left_as_it_was(words):
    model = make_marian()
    settings = model.generation_config
    model.train()
    model.lm_head = None
    with pytest.raises(TypeError):
        TransformersEngine(model, words).translate(["one"])
    assert model.training
    assert model.generation_config is settings


def test_blank_long_and_unknown_sources_get_a_translation_each(reverser, words):
    engine = TransformersEngine(reverser, words)
    for beam in (1, 3):
        found = engine.translate(["", " \n", "one " * 100, "what is this", "one"], beam)
        assert [len(row) for row in found] == [1] * 5
        assert found[0] == found[1] == [EMPTY]
        assert found[4][0].text == "one"
    assert engine.translate([]) == []
    assert engine.translate([""], 2, 2) == [[EMPTY]]


@pytest.mark.parametrize(("beam", "nbest"), [(2, 3), (0, 0), (1, 0)])
def test_more_translations_than_the_beam_has_are_refused(reverser, words, beam, nbest):
    with pytest.raises(KnobError, match="best translations"):
        TransformersEngine(reverser, words).translate(["one"], beam, nbest)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_beam_as_wide_as_the_language_finds_the_best_of_all(penalty, seed):
    """Two words and eos, three tokens at most: 9 = 3² hypotheses are all that can be open."""
    tokenizer, model = make_tokenizer(["a", "b"]), make_marian(["a", "b"], seed=seed, scale=3.0)
    model.generation_config.bad_words_ids = [[tokenizer.pad_token_id], [tokenizer.unk_token_id]]
    scores = {}
    for count in range(4):
        for row in product("ab", repeat=count):
            log_p = forced_log_p(model, tokenizer, "a b b", " ".join(row), ended=count < 3)
            scores[" ".join(row)] = log_p / min(count + 1, 3) ** penalty
    best = max(scores, key=scores.__getitem__)
    found = TransformersEngine(model, tokenizer, length_penalty=penalty, longest=3).translate(["a b b"], 9, 9)[0]
    assert found[0].text == best
    assert found[0].log_p == pytest.approx(scores[best] * min(length(best), 3) ** penalty, abs=1e-4)
    wide = TransformersEngine(model, tokenizer, length_penalty=penalty, longest=2).translate(["a b b"], 20, 20)[0]
    assert sorted(each.text for each in wide) == sorted(
        " ".join(row) for n in range(3) for row in product("ab", repeat=n)
    )
