"""A language model asked live, and what is kept of it: the same answers, whichever way they come."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from limbeck.core.forward import forward
from limbeck.core.trace import Projection, Request, Teacher, Trace, Want
from limbeck.data.batches import Buckets, batches, to_batch
from limbeck.functional.truncated import top_of
from limbeck.objectives import LanguageModeling, SampledTargets, Truncated
from limbeck.objectives.weighted_sum import weighted_sum
from limbeck.teachers import topk as module
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.topk import Manifest, TopKCache, TopKTeacher, compress
from tiny import VOCABULARY, make_tokenizer
from tiny_language import make_causal, make_masked, make_words

WORDS = len(VOCABULARY)
PRINTS = {"teacher": "t", "tokenizer": "k", "data": "d", "mask": "m"}
TOP = Manifest(k=6, vocabulary=WORDS, fingerprints=PRINTS)
SAMPLED = TOP.but(kind="sampled", k=20, temperature=2.0)


@pytest.fixture(scope="module")
def network():
    """Sharpened: a fresh model finds all words alike."""
    model = make_masked(layers=2, seed=3)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(20)
    return model


@pytest.fixture
def teacher(network):
    return LiveTeacher(network, vocabulary=WORDS)


@pytest.fixture(scope="module")
def words():
    return make_words(make_tokenizer())


def batches_of(words, size=8, split="train"):
    return list(batches(words.splits[split], words.collate, size))


@pytest.mark.parametrize("kind", ["mask-fill", "generate"])
def test_a_live_teacher_leaks_no_inference_tensors(kind, words):
    ask = Request(Want.LOGITS | Want.HIDDEN, hidden=(0, 1, 2))
    if kind == "generate":
        tokenizer = make_tokenizer()
        tokenizer.eos_token = "[SEP]"
        words, model = make_words(tokenizer, kind), make_causal(tokenizer)
    else:
        model = make_masked()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    teacher = LiveTeacher(model.train(), ask, vocabulary=WORDS - 3)
    batch = batches_of(words)[0]
    shown = teacher.answer(batch)
    parts = [shown.tokens.features, shown.tokens.weight, shown.tokens.bias, *shown.hidden]
    assert not any(part.is_inference() or part.requires_grad for part in parts)
    assert torch.allclose(shown.tokens.logits(), model(**batch.inputs).logits[batch.predicted][:, :-3], atol=1e-6)
    # They enter a graph, and its gradient does not come back to the teacher.
    leaf = torch.ones((), requires_grad=True)
    (leaf * (shown.tokens.logits().square().sum() + sum(state.square().sum() for state in shown.hidden))).backward()
    assert leaf.grad > 0
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module.training for module in model.modules())
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("size", [3, 1000])
def test_the_top_is_that_of_the_dense_logits(network, teacher, words, monkeypatch, temperature, size):
    monkeypatch.setattr(module, "chunk_size", lambda vocabulary: size)
    batch = batches_of(words)[0]
    found = compress(teacher.answer(batch).tokens, TOP.but(temperature=temperature), batch)
    true = top_of(network(**batch.inputs).logits[batch.predicted].double(), 6, temperature)
    assert torch.equal(found.ids, true.ids)
    for name in ("log_p", "log_sum", "softened"):
        assert torch.allclose(getattr(found, name).double(), getattr(true, name), atol=1e-5), name
    assert found.temperature == temperature
    assert not found.log_p.is_inference()


def test_draws_belong_to_the_question(teacher, words, monkeypatch):
    """Asked again after a crash, in other company, a question is answered alike."""
    dataset, collator = words.splits["train"], words.collate

    def drawn(rows, size):
        monkeypatch.setattr(module, "chunk_size", lambda vocabulary: size)
        batch = to_batch(collator([dataset[row] for row in rows]), words.info)
        found = compress(teacher.answer(batch).tokens, SAMPLED, batch)
        counts = batch.predicted.sum(1).tolist()
        assert found.weights.sum(-1) == pytest.approx(1, abs=1e-6)
        full = torch.zeros(len(found), WORDS).scatter_add_(1, found.ids, found.weights)
        return dict(zip(rows, full.split(counts), strict=True))

    alone = {row: drawn([row], 1000)[row] for row in range(6)}
    for rows, size in (([0, 1, 2, 3, 4, 5], 1000), ([5, 3, 1], 1000), ([4, 0, 2], 1000)):
        for row, found in drawn(rows, size).items():
            assert torch.equal(found, alone[row])
    assert not torch.equal(alone[0][0], alone[1][0])


def test_equal_answers_to_different_questions_are_drawn_differently(words):
    batch = batches_of(words)[0]
    rows, count = len(batch.uids), 3
    predicted = torch.zeros_like(batch.predicted)
    predicted[:, :count] = True
    alike = Projection(torch.zeros(rows * count, WORDS))

    def drawn(uids):
        found = compress(alike, SAMPLED, replace(batch, predicted=predicted, uids=uids))
        full = torch.zeros(len(found), WORDS).scatter_add_(1, found.ids, found.weights)
        return [tuple(one.flatten().tolist()) for one in full.split(count)]

    uids = torch.arange(rows) + 2**62
    assert len(set(drawn(uids))) == rows
    assert drawn(uids) == drawn(uids)
    assert drawn(uids.flip(0)) == drawn(uids)[::-1]
    assert len(set(drawn(torch.full_like(uids, 7)))) == 1


def test_draws_are_from_the_softened_distribution(network, words):
    batch = batches_of(words)[0]
    features = torch.zeros(1, WORDS)
    features[0, :4] = torch.tensor([4.0, 3.0, 2.0, 1.0])
    many = Projection(features.expand(int(batch.predicted.sum()), -1))
    found = compress(many, SAMPLED.but(k=255), batch)
    share = torch.zeros(WORDS).scatter_add_(0, found.ids.flatten(), found.weights.flatten()) / len(found)
    assert torch.allclose(share, (features[0] / 2).softmax(-1), atol=0.02)


@pytest.mark.parametrize("about", [TOP, SAMPLED])
def test_answers_to_nothing(about, words):
    batch = batches_of(words)[0]
    nothing = replace(batch, predicted=torch.zeros_like(batch.predicted))
    assert len(compress(Projection(torch.empty(0, WORDS)), about, nothing)) == 0


def test_a_batch_that_asks_about_nothing_is_kept(tmp_path, teacher, words):
    batch = batches_of(words)[0]
    nothing = replace(batch, predicted=torch.zeros_like(batch.predicted))
    store = TopKCache(tmp_path, TOP, write=True)
    store.fill(teacher, [nothing], lambda done: None)
    assert len(store) == len(batch.uids)
    assert len(TopKTeacher(store).answer(nothing).top) == 0


def test_every_batch_is_on_disk_before_the_next_question(tmp_path, teacher, words):
    heard = []

    def asked():
        for number, batch in enumerate(batches_of(words)[:3]):
            assert len(TopKCache.open(tmp_path)) == 8 * number
            yield batch

    TopKCache(tmp_path, TOP, write=True).fill(teacher, asked(), heard.append)
    assert heard == [8, 16, 24]
    assert len(TopKCache.open(tmp_path)) == 24


# Live = cached.


class Bypassed(Teacher):
    """What would be kept, at full precision."""

    has = Want.TOP

    def __init__(self, live, about):
        self.live, self.about = live, about

    def answer(self, batch):
        return Trace(top=compress(self.live.answer(batch).tokens, self.about, batch))


@pytest.mark.parametrize("form", ["tail", "renorm", "renorm-both", "raw"])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_live_and_cached_losses_and_gradients_agree(tmp_path, teacher, words, form, temperature):
    about = TOP.but(temperature=temperature)
    with TopKCache(tmp_path, about, write=True) as store:
        store.fill(teacher, batches_of(words, size=5), lambda done: None)
    objective = 0.5 * LanguageModeling() + 0.5 * Truncated(form=form, k=6, temperature=temperature)
    student = make_masked(layers=1, seed=8)
    train, kept = words.splits["train"], TopKTeacher(TopKCache.open(tmp_path))
    # As the trainer orders them, then as a run that resumes inside its second epoch does.
    sampler = Buckets(train.lengths, 12, seed=4, rounds=train.rounds)
    first = list(sampler)[:12]
    sampler.set_epoch(1)
    for rows in (first, list(sampler)[24:36]):
        batch = to_batch(words.collate([train[row] for row in rows]), words.info)
        found = {}
        for name, asked in (("live", teacher), ("kept", kept), ("bypassed", Bypassed(teacher, about))):
            student.zero_grad()
            total, terms = weighted_sum(objective, forward(student, batch), asked.answer(batch), batch)
            total.backward()
            slope = torch.cat([parameter.grad.flatten() for parameter in student.parameters()])
            found[name] = total.item(), terms["truncated"].item(), slope
        live = found["live"]
        assert live[1] > 1e-2
        steps = 3e-3 if form.startswith("renorm") else 1e-3  # of the codec; dividing by the top's mass enlarges them
        for name, near in (("kept", steps), ("bypassed", 1e-6)):
            assert found[name][:2] == pytest.approx(live[:2], abs=near), name
            assert torch.allclose(found[name][2], live[2], atol=near), name


def test_kept_draws_give_one_loss_in_any_company(tmp_path, teacher, words):
    with TopKCache(tmp_path, SAMPLED, write=True) as store:
        store.fill(teacher, batches_of(words), lambda done: None)
    student, train = make_masked(layers=1, seed=8), words.splits["train"]
    kept, objective = TopKTeacher(TopKCache.open(tmp_path)), 1.0 * SampledTargets(temperature=2.0)

    def total(rows):
        batch = to_batch(words.collate([train[row] for row in rows]), words.info)
        return weighted_sum(objective, forward(student, batch), kept.answer(batch), batch)[0].item() * int(
            batch.predicted.sum()
        )

    rows = list(range(10))
    assert total(rows) == pytest.approx(sum(total([row]) for row in reversed(rows)), rel=1e-5)


def test_equal_blocks_are_one_question(tmp_path, teacher, words):
    batch = batches_of(words)[0]
    twice = np.concatenate([batch.uids.numpy(), batch.uids.numpy()])
    store = TopKCache(tmp_path, TOP, write=True)
    store.fill(teacher, [batch, batch], lambda done: None)
    assert len(store) == len(batch.uids)
    assert not store.lacks(twice).any()
