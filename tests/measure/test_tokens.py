"""Sums per block against a dense reference in float64, in whatever batches they come."""

import numpy as np
import pytest
import torch

from limbeck.core.errors import KnobError
from limbeck.core.metric import metric_of, metrics_of
from limbeck.core.task import TaskInfo
from limbeck.core.trace import NoTeacher
from limbeck.data.batches import batches
from limbeck.measure import tokens as module
from limbeck.measure.metrics import BINS
from limbeck.measure.quality import compare, quality
from limbeck.measure.tokens import token_statistics
from limbeck.teachers.live import LiveTeacher
from tiny import VOCABULARY, make_tokenizer
from tiny_language import make_causal, make_masked, make_words

WORDS = len(VOCABULARY)
TASK = TaskInfo(kind="mask-fill", vocab_size=WORDS)


def sharp(model, by=30):
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(by)
    return model


@pytest.fixture(scope="module", params=["masked", "all", "generate"])
def asked(request):
    """Words, a student and a teacher; asking about all, some asked tokens have no label."""
    tokenizer = make_tokenizer()
    if request.param == "generate":
        tokenizer.eos_token = "[SEP]"
        words = make_words(tokenizer, "generate", documents=30)
        return words, sharp(make_causal(tokenizer, seed=1)), sharp(make_causal(tokenizer, seed=2))
    words = make_words(tokenizer, documents=30, ask=request.param, share=0.3)
    return words, sharp(make_masked(seed=1)), sharp(make_masked(seed=2))


def of(words, model, size=8, teacher=None, vocabulary=WORDS):
    return token_statistics(
        model, batches(words.splits["train"], words.collate, size), vocabulary, teacher or NoTeacher()
    )


@torch.no_grad()
def dense(words, model, teacher):
    """By the book, all logits at once: scores, and closeness to the teacher."""
    nll, right, sure, alike, divergence, knows, both = [], [], [], [], [], [], []
    for batch in batches(words.splits["train"], words.collate, 5):
        log_q, log_p = (m(**batch.inputs).logits.double().log_softmax(-1) for m in (model, teacher))
        here, labels = batch.has_label, batch.labels
        nll.append(-log_q.gather(-1, labels[..., None])[..., 0][here])
        right.append((log_q.argmax(-1) == labels)[here])
        sure.append(log_q.max(-1).values.exp()[here])
        alike.append((log_q.argmax(-1) == log_p.argmax(-1))[batch.predicted])
        divergence.append((log_p.exp() * (log_p - log_q)).sum(-1)[batch.predicted])
        known = (log_p.argmax(-1) == labels)[here]
        knows.append(known)
        both.append(right[-1][known])
    nll, right, sure, alike, divergence, knows, both = (
        torch.cat(x).double().numpy() for x in (nll, right, sure, alike, divergence, knows, both)
    )
    place = np.clip(np.ceil(sure * BINS).astype(int) - 1, 0, BINS - 1)
    ece = sum(abs((sure - right)[place == b].sum()) for b in range(BINS)) / len(sure)
    scores = {
        "perplexity": np.exp(nll.mean()),
        "token_nll": nll.mean(),
        "token_accuracy": right.mean(),
        "token_ece": ece,
    }
    return scores, (alike.mean(), divergence.mean(), int(knows.sum()), both.mean()), len(nll)


def scores_of(found, task=TASK):
    rows = np.ones(len(found.sums), dtype=bool)
    return quality(task, found.sums, rows, rows)[0]


def test_scores_and_fidelity_are_those_of_the_dense_reference(asked):
    words, model, teacher = asked
    found = of(words, model, teacher=LiveTeacher(teacher, vocabulary=WORDS))
    scores, (agreement, divergence, known, both), tokens = dense(words, model, teacher)
    assert scores_of(found) == pytest.approx(scores, rel=1e-5)
    assert 0 < scores["token_accuracy"] < 1
    assert found.sums[:, 2].sum() == tokens
    near = found.fidelity
    assert (near.agreement, near.divergence) == pytest.approx((agreement, divergence), rel=1e-5)
    assert (near.teacher_right_rows, near.accuracy_teacher_right) == (known, pytest.approx(both))
    assert known


def test_batches_and_chunks_do_not_matter(asked, monkeypatch):
    words, model, teacher = asked
    live = LiveTeacher(teacher, vocabulary=WORDS)
    whole = of(words, model, size=64, teacher=live)
    monkeypatch.setattr(module, "_LOGITS", 3 * WORDS)
    other = of(words, model, size=3, teacher=live)
    first, second = (np.argsort(found.uids) for found in (whole, other))
    assert np.array_equal(whole.uids[first], other.uids[second])
    assert np.allclose(whole.sums[first], other.sums[second], atol=1e-4)
    assert scores_of(whole) == pytest.approx(scores_of(other), rel=1e-5)
    a, b = (found.fidelity.model_dump(exclude_none=True) for found in (whole, other))
    assert a == pytest.approx(b, rel=1e-5)


def test_a_teacher_agrees_with_itself(asked):
    words, model, _ = asked
    near = of(words, model, teacher=LiveTeacher(model, vocabulary=WORDS)).fidelity
    assert (near.agreement, near.accuracy_teacher_right) == (1.0, 1.0)
    assert near.divergence == pytest.approx(0, abs=1e-6)


def test_without_a_teacher_there_is_no_fidelity(asked):
    assert of(*asked[:2]).fidelity is None


def test_the_surest_disagreements_come_along(asked):
    words, model, teacher = asked
    train = words.splits["train"]

    def examples(most, size=8):
        some = batches(train, words.collate, size)
        live = LiveTeacher(teacher, vocabulary=WORDS)
        return token_statistics(model, some, WORDS, live, examples=most).examples

    every = examples(10_000)
    sure = [one.student_confidence * one.teacher_confidence for one in every]
    assert sure == pytest.approx(sorted(sure, reverse=True))
    fidelity = of(words, model, teacher=LiveTeacher(teacher, vocabulary=WORDS)).fidelity
    predicted = sum(int(batch.in_loss.sum()) for batch in batches(train, words.collate, 8))
    assert len(every) == round((1 - fidelity.agreement) * predicted)
    assert all(one.student != one.teacher and len(one.context) <= 40 for one in every)
    few = examples(5, size=3)
    assert [one.student_confidence for one in few] == pytest.approx([one.student_confidence for one in every[:5]])
    assert examples(0) == ()


def test_an_example_holds_what_stands_left_of_it(asked):
    """The teacher knows the next token of a causal block, or the one under a mask."""
    words, model, teacher = asked
    some = batches(words.splits["train"], words.collate, 8)
    found = token_statistics(model, some, WORDS, LiveTeacher(teacher, vocabulary=WORDS), examples=3)
    whole = [batch.inputs["input_ids"].tolist() for batch in batches(words.splits["train"], words.collate, 8)]
    rows = [row for batch in whole for row in batch]
    for one in found.examples:
        left = list(one.context)
        if words.info.kind == "generate" and one.label >= 0:
            left.append(one.label)
        assert any(left == row[at : at + len(left)] for row in rows for at in range(len(row)))


def test_padding_of_the_vocabulary_does_not_count():
    words, model = make_words(make_tokenizer(), documents=10), sharp(make_masked(seed=1, vocab_size=48))
    cut = of(words, model)
    with torch.no_grad():
        model.get_output_embeddings().bias[WORDS:] = -1e9
    assert scores_of(of(words, model, vocabulary=48)) == pytest.approx(scores_of(cut), rel=1e-5)


def test_a_model_comes_back_in_the_mode_it_was_in(asked):
    words, model, _ = asked
    model.train()
    first, second = of(words, model), of(words, model)
    assert np.array_equal(first.sums, second.sums), "dropout was off"
    assert all(part.training for part in model.modules())
    model.eval()


def test_a_guess_has_the_perplexity_of_the_vocabulary():
    model = make_masked()
    with torch.no_grad():
        model.get_output_embeddings().weight.zero_()
    found = scores_of(of(make_words(make_tokenizer(), documents=10), model))
    assert found["perplexity"] == pytest.approx(WORDS, rel=1e-4)
    assert found["token_nll"] == pytest.approx(np.log(WORDS), rel=1e-4)


def test_one_progress_per_batch(asked):
    words, model, _ = asked
    heard = []
    train = words.splits["train"]
    token_statistics(model, batches(train, words.collate, 8), WORDS, on_batch=heard.append)
    assert heard[0] == 8
    assert heard[-1] == len(train)


def test_no_batches_make_empty_statistics():
    found = token_statistics(make_masked(), [], WORDS)
    assert found.sums.shape == (0, 3 + BINS)
    assert quality(TASK, found.sums, np.empty(0), np.empty(0, dtype=bool)) == ({}, [])


# Metrics of sums.


def sums(*blocks):
    """Of (nats, right, tokens) each."""
    return np.array([[*block, *[0.0] * BINS] for block in blocks], dtype=float)


def test_tokens_are_weighed_not_blocks():
    found = scores_of_sums(sums((8.0, 1, 2), (1.0, 7, 8)))
    assert found["token_nll"] == pytest.approx(0.9)
    assert found["perplexity"] == pytest.approx(np.exp(0.9))
    assert found["token_accuracy"] == pytest.approx(0.8)


def scores_of_sums(found):
    rows = np.ones(len(found), dtype=bool)
    return quality(TASK, found, rows, rows)[0]


def test_a_block_without_predicted_tokens_changes_nothing():
    assert scores_of_sums(sums((8.0, 1, 2), (0, 0, 0))) == scores_of_sums(sums((8.0, 1, 2)))


def test_calibration_of_sums():
    found = sums((1.0, 1, 4), (1.0, 1, 4))
    found[0, 3], found[1, 3], found[0, 9] = 0.6, -0.2, -0.8  # bins add up before their sign is lost
    assert scores_of_sums(found)["token_ece"] == pytest.approx((0.4 + 0.8) / 8)


@pytest.mark.parametrize("kind", ["mask-fill", "generate"])
def test_the_metrics_of_tokens(kind):
    task = TaskInfo(kind=kind, vocab_size=WORDS)
    assert task.metric == next(iter(metrics_of(task))) == "perplexity"
    assert not task.higher_is_better
    assert not metric_of(task, "perplexity").higher_is_better
    assert metric_of(task, "token_accuracy").higher_is_better
    with pytest.raises(KnobError, match="no metric 'accuracy'"):
        compare(task, "accuracy", "a", "b", [], [], np.empty(0), np.empty(0))


def compared(a, b, metric="perplexity", **names):
    rows = np.ones(len(a[0]), dtype=bool)
    names = {"better": "distilled", "than": "plain"} | names
    return compare(TASK, metric, a=a, b=b, labels=rows, has_label=rows, rounds=500, **names)


def drawn(nats, seed, blocks=80):
    draw = np.random.default_rng(seed)
    tokens = draw.integers(1, 12, blocks)
    found = np.zeros((blocks, 3 + BINS))
    found[:, 0] = draw.normal(nats, 0.1, blocks) * tokens
    found[:, 1] = draw.binomial(tokens, np.exp(-nats))
    found[:, 2] = tokens
    return found


def test_a_lower_perplexity_is_a_gain():
    better, worse = [drawn(1.0, 0), drawn(1.0, 0)], [drawn(1.5, 0), drawn(1.5, 0)]
    found = compared(better, worse)
    rows = [scores_of_sums(x)["perplexity"] for x in (better[0], worse[0])]
    assert found.difference == pytest.approx(rows[0] - rows[1])
    assert found.low <= found.difference <= found.high < 0
    assert found.sentence.startswith("Distillation helped")
    assert f"−{abs(found.difference):.2f} in perplexity" in found.sentence
    assert "2 seeds, 80 test blocks" in found.sentence
    mirrored = compared(worse, better)
    assert mirrored.sentence.startswith("Distillation hurt")
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low))


def test_equals_do_not_differ():
    found = compared([drawn(1.0, 0)], [drawn(1.0, 0)])
    assert (found.difference, found.low, found.high) == (0, 0, 0)
    assert "no difference" in found.sentence


def test_a_higher_token_accuracy_is_a_gain():
    found = compared([drawn(0.5, 0)], [drawn(1.5, 0)], metric="token_accuracy")
    assert found.low > 0
    assert "points of token accuracy" in found.sentence
