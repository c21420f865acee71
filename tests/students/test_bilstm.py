"""The BiLSTM: what it computes, what it does not read, where it starts from, how it is saved."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from limbeck.core.errors import KnobError, ModelError
from limbeck.core.task import TaskInfo
from limbeck.measure.size import size_of
from limbeck.students.bilstm import principal
from limbeck.students.inherit import reinit
from limbeck.students.load import load
from limbeck.students.networks.bilstm import BiLSTMConfig, BiLSTMForSequenceClassification
from limbeck.students.shrink import Shrink
from limbeck.students.sizes import shape_of
from tiny import VOCABULARY, make_classifier, make_tokenizer

PAD, CLS, SEP, MASK = 0, 2, 3, 4
SIZES = {"embedding": 6, "hidden": 5, "feed_forward": 7}
BILSTM = Shrink(family="bilstm")


def built(pairs=False, seed=1, **sizes):
    torch.manual_seed(seed)
    student, _ = BILSTM.but(**SIZES | sizes).build(make_classifier(), make_tokenizer(), pairs)
    return student


def ids(*rows):
    return torch.tensor(rows)


@torch.no_grad()
def logits(model, input_ids, mask=None, **others):
    mask = torch.ones_like(input_ids) if mask is None else mask
    return model(input_ids=input_ids, attention_mask=mask, **others).logits


# ---- what it computes, written again with loops in float64


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def last_state(weights, rows, ending):
    w_in, w_state, b_in, b_state = (
        weights[f"reader.lstm.{name}_l0{ending}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    size = w_state.shape[1]
    h, c = np.zeros(size), np.zeros(size)
    for x in rows:
        i, f, g, o = np.split(w_in @ x + b_in + w_state @ h + b_state, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    return h


def reference(model, *texts):
    weights = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
    states = []
    for words in texts:
        rows = [np.concatenate([weights[f"reader.{table}.weight"][w] for table in ("static", "tuned")]) for w in words]
        states.append(np.concatenate([last_state(weights, rows, ""), last_state(weights, rows[::-1], "_reverse")]))
    if len(states) == 2:
        one, two = states
        states = [one, two, np.abs(one - two), one * two]
    hidden = np.maximum(weights["hidden.weight"] @ np.concatenate(states) + weights["hidden.bias"], 0)
    return weights["classifier.weight"] @ hidden + weights["classifier.bias"]


def test_single_texts_equal_the_reference():
    model = built()
    with torch.no_grad():
        model.reader.tuned.weight.mul_(-3)  # as if it had learned: the two tables must not be mixed up
    found = logits(model, ids([CLS, 7, 9, 8, SEP], [CLS, 11, SEP, PAD, PAD]), ids([1, 1, 1, 1, 1], [1, 1, 1, 0, 0]))
    np.testing.assert_allclose(found[0], reference(model, [7, 9, 8]), atol=1e-6)
    np.testing.assert_allclose(found[1], reference(model, [11]), atol=1e-6)


def test_pairs_equal_the_reference():
    model = built(pairs=True)
    words = ids([CLS, 7, 9, SEP, 8, 10, 12, SEP], [CLS, 11, SEP, 13, SEP, PAD, PAD, PAD])
    kinds = ids([0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0, 0])
    found = logits(model, words, (words != PAD).long(), token_type_ids=kinds)
    np.testing.assert_allclose(found[0], reference(model, [7, 9], [8, 10, 12]), atol=1e-6)
    np.testing.assert_allclose(found[1], reference(model, [11], [13]), atol=1e-6)


def test_without_segments_the_first_separator_parts_a_pair():
    model = built(pairs=True)
    words = ids([CLS, 7, 9, SEP, SEP, 8, 10, SEP])  # as RoBERTa writes pairs
    model.config.segments = False
    np.testing.assert_allclose(logits(model, words)[0], reference(model, [7, 9], [8, 10]), atol=1e-6)
    zeros = torch.zeros_like(words)  # segments that say nothing are not believed
    assert torch.equal(logits(model, words, token_type_ids=zeros), logits(model, words))


# ---- what it does not read


@pytest.mark.parametrize("pairs", [False, True])
def test_padding_changes_nothing(pairs):
    model = built(pairs)
    row, kinds = [CLS, 7, 9, SEP, 8, SEP], [0, 0, 0, 0, 1, 1]
    alone = logits(model, ids(row), token_type_ids=ids(kinds))
    junk = [17, 3, 21, 30]
    for left, right in ((0, 4), (4, 0), (2, 2)):
        words = ids(junk[:left] + row + junk[:right], [CLS, 5, 6, SEP, 7, SEP, 9, 9, 9, SEP])
        mask = ids([0] * left + [1] * 6 + [0] * right, [1] * 10)
        segments = ids([1] * left + kinds + [1] * right, [0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
        assert torch.allclose(logits(model, words, mask, token_type_ids=segments)[:1], alone, atol=1e-6)


def test_special_tokens_are_not_read_but_masks_are():
    model = built()
    assert torch.allclose(logits(model, ids([CLS, 7, 9, SEP])), logits(model, ids([7, 9])), atol=1e-6)
    assert not torch.allclose(logits(model, ids([7, MASK, 9])), logits(model, ids([7, 9])), atol=1e-4)


def test_a_text_without_a_word_gives_the_answer_to_nothing():
    model = built()
    found = logits(model, ids([CLS, SEP, PAD], [CLS, 7, SEP]), ids([1, 1, 0], [1, 1, 1]))
    np.testing.assert_allclose(found[0], reference(model, []), atol=1e-6)
    assert torch.allclose(logits(model, ids([CLS, SEP])), found[:1], atol=1e-6)


def test_one_table_learns_and_padding_gets_no_gradient():
    model = built().train()
    model(input_ids=ids([CLS, 7, 21, 21]), attention_mask=ids([1, 1, 0, 0]), labels=torch.tensor([1])).loss.backward()
    assert model.reader.static.weight.grad is None
    assert model.reader.tuned.weight.grad[7].abs().sum() > 0
    assert model.reader.tuned.weight.grad[[21, CLS]].abs().sum() == 0


# ---- its size


@pytest.mark.parametrize(("pairs", "outputs"), [(False, 2), (False, 1), (True, 3)])
def test_parameters_follow_from_the_sizes(pairs, outputs):
    e, h, f = 300, 150, 200
    config = BiLSTMConfig(vocab_size=50, pairs=pairs, num_labels=outputs)
    lstm = 2 * (4 * h * (2 * e) + 4 * h * h + 2 * 4 * h)
    expected = lstm + ((8 if pairs else 2) * h + 1) * f + (f + 1) * outputs
    size = size_of(BiLSTMForSequenceClassification(config))
    assert size.parameters_without_embeddings == expected
    assert size.parameters == expected + 2 * 50 * e
    if not pairs and outputs == 2:
        assert round(expected / 1e6, 2) == 0.96  # the paper's figure


def test_its_shape_can_be_read_like_an_encoders():
    shape = shape_of(built())
    assert (shape.architecture, shape.layers, shape.hidden, shape.feed_forward) == ("limbeck-bilstm", 1, 5, 7)


# ---- where it starts from


def test_equal_width_copies_the_teachers_table():
    teacher = make_classifier()
    student, came = BILSTM.but(hidden=5, feed_forward=7).build(teacher, make_tokenizer())
    table = teacher.get_input_embeddings().weight
    assert torch.equal(student.reader.static.weight, table)
    assert torch.equal(student.reader.tuned.weight, table)
    assert student.reader.static.weight.data_ptr() != student.reader.tuned.weight.data_ptr()
    assert (came.whole, came.sliced) == (2, 0)
    assert student.config.id2label == {0: "negative", 1: "positive"}


def test_narrower_tables_keep_the_largest_part_of_the_variance():
    torch.manual_seed(0)
    table = torch.randn(40, 8, dtype=torch.float64) * torch.tensor([9.0, 1, 7, 1, 5, 1, 1, 1]) + 3
    found = principal(table, 3)
    centred = (table - table.mean(0)).numpy()
    strengths = np.linalg.svd(centred, compute_uv=False)
    np.testing.assert_allclose(np.linalg.norm(found.numpy(), axis=0), strengths[:3], rtol=1e-9)
    whole = principal(table, 8)  # all axes: nothing but a rotation
    np.testing.assert_allclose(torch.cdist(whole, whole), torch.cdist(table, table), atol=1e-5)


def test_new_parts_can_be_drawn_again():
    student, came = BILSTM.but(**SIZES).build(make_classifier(), make_tokenizer())
    other = reinit(student, came.fresh)
    assert torch.equal(other.reader.static.weight, student.reader.static.weight)
    assert not torch.equal(other.reader.lstm.weight_ih_l0, student.reader.lstm.weight_ih_l0)
    assert not other.reader.static.weight.requires_grad


def test_embeddings_wider_than_the_teachers_are_refused():
    with pytest.raises(KnobError, match="at most 32"):
        BILSTM.but(embedding=33).build(make_classifier(), make_tokenizer())


def test_it_needs_the_tokenizer():
    with pytest.raises(ModelError, match="needs the tokenizer"):
        BILSTM.build(make_classifier())


def test_pairs_that_nothing_parts_are_refused():
    tokenizer = make_tokenizer()
    tokenizer.sep_token = None
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    with pytest.raises(ModelError, match="sep_token"):
        BILSTM.build(make_classifier(), tokenizer, pairs=True)
    BILSTM.build(make_classifier(), tokenizer, pairs=False)


# ---- how it is saved


@pytest.fixture
def saved(tmp_path):
    model = built(pairs=True)
    model.save_pretrained(tmp_path / "student")
    make_tokenizer().save_pretrained(tmp_path / "student")
    return model, tmp_path / "student"


WORDS = [[CLS, 7, 9, SEP, 8, SEP]]
KINDS = [[0, 0, 0, 0, 1, 1]]


def test_it_opens_with_transformers_and_keeps_its_frozen_table(saved):
    model, folder = saved
    opened = AutoModelForSequenceClassification.from_pretrained(folder)
    assert type(opened) is BiLSTMForSequenceClassification
    assert torch.equal(
        logits(opened, ids(*WORDS), token_type_ids=ids(*KINDS)), logits(model, ids(*WORDS), token_type_ids=ids(*KINDS))
    )
    assert not opened.reader.static.weight.requires_grad
    assert opened.reader.tuned.weight.requires_grad


def test_limbeck_opens_it_as_a_classifier_and_with_a_new_head(saved):
    model, folder = saved
    opened, _ = load(folder, "")
    assert torch.equal(opened.reader.lstm.weight_ih_l0, model.reader.lstm.weight_ih_l0)
    other, _ = load(folder, "classify", TaskInfo(kind="classify", labels=("a", "b", "c")), new_head=True)
    assert torch.equal(other.reader.lstm.weight_ih_l0, model.reader.lstm.weight_ih_l0)
    assert other.classifier.weight.shape == (3, 7)


ELSEWHERE = """
import json, sys
sys.modules["limbeck"] = None  # importing it fails
import torch
from transformers import AutoModelForSequenceClassification
folder, words, kinds = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
model = AutoModelForSequenceClassification.from_pretrained(folder, trust_remote_code=True)
with torch.no_grad():
    found = model(input_ids=torch.tensor(words), token_type_ids=torch.tensor(kinds)).logits
print(json.dumps([found.tolist(), model.reader.static.weight.requires_grad]))
"""


@pytest.mark.slow
def test_it_opens_where_limbeck_is_not(saved, tmp_path):
    model, folder = saved
    command = [sys.executable, "-c", ELSEWHERE, str(folder), json.dumps(WORDS), json.dumps(KINDS)]
    env = {**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HUB_OFFLINE": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=env)
    assert ended.returncode == 0, ended.stderr
    found, learns = json.loads(ended.stdout.splitlines()[-1])
    expected = logits(model, ids(*WORDS), token_type_ids=ids(*KINDS))
    assert torch.allclose(torch.tensor(found), expected, atol=1e-6)
    assert learns is False


def test_every_token_of_the_teacher_is_known():
    assert built().config.vocab_size == len(VOCABULARY)
