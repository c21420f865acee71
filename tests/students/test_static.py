"""The static student: what it computes, what it does not read, where it starts from, how it is saved."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from limbeck.core.errors import KnobError, ModelError
from limbeck.core.fingerprint import fingerprint
from limbeck.core.task import TaskInfo
from limbeck.core.vocabulary import take_rows
from limbeck.measure.size import size_of
from limbeck.students.inherit import reinit
from limbeck.students.load import load
from limbeck.students.networks.static import StaticConfig, StaticForSequenceClassification
from limbeck.students.pieces import principal
from limbeck.students.shrink import Shrink
from limbeck.students.sizes import shape_of
from limbeck.students.static import SIF, SPREAD, piece_vectors, weighted
from tiny import VOCABULARY, make_classifier, make_tokenizer

PAD, CLS, SEP, MASK = 0, 2, 3, 4
SIZES = {"embedding": 6, "filters": 5, "feed_forward": 7}
STATIC = Shrink(family="static")


def built(pairs=False, seed=1, **sizes):
    torch.manual_seed(seed)
    student, _ = STATIC.but(**SIZES | sizes).build(make_classifier(), make_tokenizer(), pairs)
    return student


def ids(*rows):
    return torch.tensor(rows)


@torch.no_grad()
def logits(model, input_ids, mask=None, **others):
    mask = torch.ones_like(input_ids) if mask is None else mask
    return model(input_ids=input_ids, attention_mask=mask, **others).logits


# ---- what it computes, written again with loops in float64


def pooled(weights, config, words):
    """Filter by filter, window by window."""
    nothing = np.zeros(config.embedding_size)
    found = [weights["reader.pieces.weight"][word] for word in words]
    parts = [np.mean(found, axis=0) if found else nothing]
    if config.filters:
        left, right = (config.window - 1) // 2, config.window // 2
        padded = [nothing] * left + found + [nothing] * right
        largest = np.zeros(config.filters)
        for place in range(len(words)):
            seen = np.concatenate(padded[place : place + config.window])
            largest = np.maximum(largest, weights["reader.filters.weight"] @ seen + weights["reader.filters.bias"])
        parts.append(largest)
    return np.concatenate(parts)


def reference(model, *texts):
    weights = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
    states = [pooled(weights, model.config, words) for words in texts]
    if len(states) == 2:
        one, two = states
        states = [one, two, np.abs(one - two), one * two]
    hidden = np.maximum(weights["hidden.weight"] @ np.concatenate(states) + weights["hidden.bias"], 0)
    return weights["classifier.weight"] @ hidden + weights["classifier.bias"]


@pytest.mark.parametrize(("filters", "window"), [(0, 3), (5, 1), (5, 2), (5, 3), (5, 5)])
def test_single_texts_equal_the_reference(filters, window):
    model = built(filters=filters, window=window)
    rows = [[CLS, 7, 9, 8, 11, SEP], [CLS, 11, 12, SEP, PAD, PAD], [CLS, 6, SEP, PAD, PAD, PAD]]
    found = logits(model, ids(*rows), (ids(*rows) != PAD).long())
    for row, one in zip(rows, found, strict=True):
        expected = reference(model, [token for token in row if token not in (CLS, SEP, PAD)])
        np.testing.assert_allclose(one, expected, atol=1e-5)


def test_pairs_equal_the_reference():
    model = built(pairs=True)
    words = ids([CLS, 7, 9, SEP, 8, 10, 12, SEP], [CLS, 11, SEP, 13, SEP, PAD, PAD, PAD])
    kinds = ids([0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0, 0])
    found = logits(model, words, (words != PAD).long(), token_type_ids=kinds)
    np.testing.assert_allclose(found[0], reference(model, [7, 9], [8, 10, 12]), atol=1e-5)
    np.testing.assert_allclose(found[1], reference(model, [11], [13]), atol=1e-5)


def test_without_segments_the_first_separator_parts_a_pair():
    model = built(pairs=True)
    words = ids([CLS, 7, 9, SEP, SEP, 8, 10, SEP])  # as RoBERTa writes pairs
    model.config.segments = False
    np.testing.assert_allclose(logits(model, words)[0], reference(model, [7, 9], [8, 10]), atol=1e-5)


def test_the_order_of_words_shows_in_filters_alone():
    one, other = ids([CLS, 7, 9, 8, SEP]), ids([CLS, 8, 9, 7, SEP])
    with_filters, without = built(), built(filters=0)
    assert not torch.allclose(logits(with_filters, one), logits(with_filters, other), atol=1e-4)
    assert torch.allclose(logits(without, one), logits(without, other), atol=1e-6)


# ---- what it does not read


@pytest.mark.parametrize("pairs", [False, True])
def test_padding_changes_nothing(pairs):
    model = built(pairs)
    row, kinds = [CLS, 7, 9, SEP, 8, SEP], [0, 0, 0, 0, 1, 1]
    alone = logits(model, ids(row), token_type_ids=ids(kinds))
    junk = [17, 5, 21, 30]
    for left, right in ((0, 4), (4, 0), (2, 2)):
        words = ids(junk[:left] + row + junk[:right], [CLS, 5, 6, SEP, 7, SEP, 9, 9, 9, SEP])
        mask = ids([0] * left + [1] * 6 + [0] * right, [1] * 10)
        segments = ids([1] * left + kinds + [1] * right, [0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
        assert torch.allclose(logits(model, words, mask, token_type_ids=segments)[:1], alone, atol=1e-6)


def test_special_tokens_are_not_read_but_masks_are():
    model = built()
    assert torch.allclose(logits(model, ids([CLS, 7, 9, SEP])), logits(model, ids([7, 9])), atol=1e-6)
    assert not torch.allclose(logits(model, ids([7, MASK, 9])), logits(model, ids([7, 9])), atol=1e-4)


@pytest.mark.parametrize("filters", [0, 5])
def test_a_text_without_a_word_gives_the_answer_to_nothing(filters):
    model = built(filters=filters)
    found = logits(model, ids([CLS, SEP, PAD], [CLS, 7, SEP]), ids([1, 1, 0], [1, 1, 1]))
    np.testing.assert_allclose(found[0], reference(model, []), atol=1e-6)
    assert torch.allclose(logits(model, ids([CLS, SEP])), found[:1], atol=1e-6)


def test_only_what_is_read_gets_a_gradient():
    model = built(word_dropout=0.0).train()
    model(input_ids=ids([CLS, 7, 21, 21]), attention_mask=ids([1, 1, 0, 0]), labels=torch.tensor([1])).loss.backward()
    assert model.reader.pieces.weight.grad[7].abs().sum() > 0
    assert model.reader.pieces.weight.grad[[21, CLS]].abs().sum() == 0


def test_in_training_some_pieces_are_not_read():
    model = built(word_dropout=0.5).train()
    words = torch.full((400, 8), 9)
    torch.manual_seed(0)
    reader = model.reader
    shares = reader(words, words == 9)[:, :6].ne(0).any(1)  # a text of which nothing is read has a mean of 0
    assert shares.float().mean() > 0.95
    vectors = reader(torch.tensor([[7, 9]] * 400), torch.ones(400, 2, dtype=torch.bool))[:, :6]
    one, other = reader.pieces.weight[[7, 9]]
    seen = [(vectors - given).abs().amax(1) < 1e-6 for given in ((one + other) / 2, one, other, 0 * one)]
    assert [found.float().mean().item() for found in seen] == pytest.approx([0.25] * 4, abs=0.07)
    model.eval()
    assert torch.equal(reader(words, words == 9)[0], reader(words, words == 9)[1])


# ---- its size


@pytest.mark.parametrize("pairs", [False, True])
def test_parameters_follow_from_the_sizes(pairs):
    config = StaticConfig(vocab_size=30522, pairs=pairs)
    size = size_of(StaticForSequenceClassification(config))
    filters = (5 * 128 + 1) * 128
    assert size.parameters_without_embeddings == filters + ((4 if pairs else 1) * 256 + 1) * 128 + 129 * 2
    assert size.parameters == size.parameters_without_embeddings + 30522 * 128
    assert 3e6 < size.parameters < 5e6  # bytes at 8 bits each


def test_its_shape_is_told_in_words_and_its_learning_rate_is_that_of_no_width():
    shape = shape_of(built())
    assert (shape.architecture, shape.layers, shape.hidden) == ("limbeck-static", 0, 0)
    assert shape.text == "6 per piece, 5 filters over 5, hidden 7"
    assert shape_of(built(filters=0)).text == "6 per piece, hidden 7"


# ---- where it starts from


def test_vectors_are_what_the_teacher_makes_of_each_piece_alone():
    teacher, tokenizer = make_classifier(), make_tokenizer()
    found = piece_vectors(teacher, tokenizer)
    assert found.shape == (len(VOCABULARY), 32)
    for word in ("good", "film"):
        with torch.no_grad():
            states = teacher.bert(**tokenizer(word, return_tensors="pt")).last_hidden_state
        assert torch.allclose(found[VOCABULARY.index(word)], states[0].mean(0), atol=1e-5)
    student, came = STATIC.but(**SIZES).build(teacher, tokenizer)
    expected = weighted(principal(found, 6))
    assert torch.allclose(student.reader.pieces.weight, expected, atol=1e-5)
    assert (came.whole, came.sliced) == (0, 1)
    assert "each piece alone" in came.sentence()
    assert student.config.id2label == {0: "negative", 1: "positive"}


def test_weights_are_sifs_of_zipfs_law():
    vectors = torch.ones(1000, 2)
    found = weighted(vectors)[:, 0].double()
    share = 1 / torch.arange(1, 1001) / (1 / torch.arange(1, 1001)).sum()
    np.testing.assert_allclose(found[1:] / found[:-1], (SIF + share[:-1]) / (SIF + share[1:]), rtol=1e-4)
    assert weighted(torch.randn(50, 4) * 7).square().mean().sqrt().item() == pytest.approx(SPREAD, rel=1e-5)
    assert weighted(torch.zeros(3, 2)).count_nonzero() == 0


def test_embeddings_can_be_the_start():
    teacher = make_classifier()
    student, came = STATIC.but(**SIZES, vectors="embeddings").build(teacher, make_tokenizer())
    expected = weighted(principal(teacher.get_input_embeddings().weight.detach(), 6))
    assert torch.equal(student.reader.pieces.weight, expected)
    assert "the teacher's embeddings" in came.sentence()


def test_a_start_is_the_same_each_time_and_leaves_the_teacher_as_it_was():
    teacher = make_classifier().train()
    before = fingerprint(teacher)
    starts = [STATIC.but(**SIZES).build(teacher, make_tokenizer())[0].reader.pieces.weight for _ in range(2)]
    assert torch.equal(*starts)
    assert teacher.training
    assert fingerprint(teacher) == before


def test_new_parts_can_be_drawn_again():
    student, came = STATIC.but(**SIZES).build(make_classifier(), make_tokenizer())
    other = reinit(student, came.fresh)
    assert torch.equal(other.reader.pieces.weight, student.reader.pieces.weight)
    assert not torch.equal(other.hidden.weight, student.hidden.weight)
    assert not torch.equal(other.reader.filters.weight, student.reader.filters.weight)


# ---- what it refuses


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"embedding": 33}, "at most 32"),
        ({"layers": 2}, "'student.layers' has no effect"),
        ({"hidden": 8}, "student.feed_forward"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes, sentence):
    with pytest.raises(KnobError, match=sentence):
        STATIC.but(**sizes).build(make_classifier(), make_tokenizer())


def test_its_knobs_are_refused_for_other_families():
    with pytest.raises(KnobError, match=r"'student\.filters' has no effect for family 'bilstm'"):
        Shrink(family="bilstm", filters=64).build(make_classifier(), make_tokenizer())


def test_it_needs_a_fast_tokenizer():
    with pytest.raises(ModelError, match="needs the tokenizer"):
        STATIC.build(make_classifier())

    class Slow:
        pad_token_id = 0

    with pytest.raises(ModelError, match=r"Slow has no tokenizer\.json"):
        STATIC.build(make_classifier(), Slow())


# ---- a smaller vocabulary


def test_answers_stay_when_other_pieces_are_taken_away():
    model = built()
    before = logits(model, ids([CLS, 7, 9, 8, SEP]))
    kept = [PAD, 1, CLS, SEP, MASK, 7, 8, 9]
    take_rows(model, kept)
    new = {old: number for number, old in enumerate(kept)}
    assert torch.equal(logits(model, ids([new[token] for token in (CLS, 7, 9, 8, SEP)])), before)


# ---- how it is saved


@pytest.fixture
def saved(tmp_path):
    model = built(pairs=True)
    model.save_pretrained(tmp_path / "student")
    make_tokenizer().save_pretrained(tmp_path / "student")
    return model, tmp_path / "student"


WORDS = [[CLS, 7, 9, SEP, 8, SEP]]
KINDS = [[0, 0, 0, 0, 1, 1]]


def test_it_opens_with_transformers_and_with_a_new_head(saved):
    model, folder = saved
    opened = AutoModelForSequenceClassification.from_pretrained(folder)
    assert type(opened) is StaticForSequenceClassification
    how = {"token_type_ids": ids(*KINDS)}
    assert torch.equal(logits(opened, ids(*WORDS), **how), logits(model, ids(*WORDS), **how))
    again, _ = load(folder, "")
    assert torch.equal(again.reader.pieces.weight, model.reader.pieces.weight)
    other, _ = load(folder, "classify", TaskInfo(kind="classify", labels=("a", "b", "c")), new_head=True)
    assert torch.equal(other.reader.filters.weight, model.reader.filters.weight)
    assert other.classifier.weight.shape == (3, 7)


ELSEWHERE = """
import json, sys
sys.modules["limbeck"] = None  # importing it fails
import torch
from transformers import AutoModelForSequenceClassification
folder, words, kinds = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
model = AutoModelForSequenceClassification.from_pretrained(folder, trust_remote_code=True)
with torch.no_grad():
    print(json.dumps(model(input_ids=torch.tensor(words), token_type_ids=torch.tensor(kinds)).logits.tolist()))
"""


@pytest.mark.slow
def test_it_opens_where_limbeck_is_not(saved, tmp_path):
    model, folder = saved
    command = [sys.executable, "-c", ELSEWHERE, str(folder), json.dumps(WORDS), json.dumps(KINDS)]
    env = {**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HUB_OFFLINE": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=env)
    assert ended.returncode == 0, ended.stderr
    expected = logits(model, ids(*WORDS), token_type_ids=ids(*KINDS))
    assert torch.allclose(torch.tensor(json.loads(ended.stdout.splitlines()[-1])), expected, atol=1e-6)
