"""Teachers of two directions: who is on at which score, whose answers change, and what the recipe's loss becomes."""

import numpy as np
import pytest
import torch

from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, Chunk, Projection, Teacher, Trace, Want
from limbeck.functional.truncated import top_of
from limbeck.objectives import LanguageModeling, Truncated, WordKD
from limbeck.recipes.multilingual import MULTILINGUAL
from limbeck.teachers.settings import SwitchSettings
from limbeck.teachers.switch import DirectionIndex, Switch, share

WORDS = 9
TASK = TaskInfo(kind="translate", vocab_size=WORDS)
THRESHOLD, ADAPTIVE = SwitchSettings(strategy="threshold"), SwitchSettings(strategy="adaptive")


@pytest.mark.parametrize(("student", "on"), [(30.0, 1), (31.99, 1), (32.0, 0), (40.0, 0), (float("nan"), 1)])
def test_a_teacher_is_off_from_one_bleu_above_its_own(student, on):
    assert share(THRESHOLD, student, 31.0) == on


def test_just_short_of_the_margin_it_stays_on():
    assert share(THRESHOLD, 31.0 + 0.99, 31.0) == 1
    assert share(THRESHOLD, 31.0 + 1, 31.0) == 0
    assert share(THRESHOLD.but(margin=3.0), 31.0 + 2.99, 31.0) == 1


@pytest.mark.parametrize(("ahead", "weight"), [(-10, 0.9), (-2, 0.9), (0, 0.225), (1, 0.1125)])
def test_an_adaptive_teacher_has_the_weight_of_the_public_code(ahead, weight):
    assert 0.9 * share(ADAPTIVE, 25.0 + ahead, 25.0) == pytest.approx(weight)


def test_a_fixed_teacher_never_gives_way():
    assert share(SwitchSettings(), 100.0, 0.0) == 1


class Kept(Teacher):
    """The top of logits at hand, row after row of a batch."""

    has = Want.TOP

    def __init__(self, logits: torch.Tensor, k: int) -> None:
        self.top = top_of(logits, k)

    def answer(self, batch: Batch) -> Trace:
        return Trace(top=self.top)


@pytest.fixture
def two():
    """Three sentences, of 2, 3 and 1 tokens; the second is of the other direction."""
    asked = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 0, 0]], dtype=torch.bool)
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(0, WORDS, asked.shape, generator=draw)
    batch = Batch(TASK, torch.tensor([30, 10, 20]), labels, asked.clone(), predicted=asked)
    logits = torch.randn(6, WORDS, generator=draw, dtype=torch.float64)
    owners = DirectionIndex.of(("en-de", "de-en"), np.array([10, 20, 30, 30]), np.array([1, 0, 0, 1]))
    return batch, logits, owners


def test_only_rows_of_the_direction_that_is_passed_change(two):
    batch, logits, owners = two
    kept = Kept(logits, 4)
    switch = Switch(kept, owners, {"en-de": 20.0, "de-en": 30.0}, THRESHOLD)
    assert switch.answer(batch).top is kept.top
    switch.update({"bleu of en-de": 20.5, "bleu of de-en": 31.0})
    assert switch.shares == {"en-de": 1.0, "de-en": 0.0}
    top, second = switch.answer(batch).top, slice(2, 5)
    assert torch.equal(top.ids[second, 0], batch.labels[1])
    assert (top.log_p[second].exp().sum(-1) == 1).all()
    for rows in (slice(0, 2), slice(5, 6)):
        assert torch.equal(top.log_p[rows], kept.top.log_p[rows])
    switch.update({"bleu of en-de": 20.5, "bleu of de-en": 30.9})
    assert switch.answer(batch).top is kept.top, "a student that falls back has its teacher again"


def test_the_only_direction_of_a_run_goes_by_bleu(two):
    batch, logits, _ = two
    owners = DirectionIndex.of(("",), np.array([10, 20, 30]), np.zeros(3, np.int64))
    switch = Switch(Kept(logits, 4), owners, {"": 50.0}, THRESHOLD)
    switch.update({"bleu": 51.0, "chrf": 1.0})
    assert torch.equal(switch.answer(batch).top.ids[:, 0], batch.labels[batch.predicted])


def loss(objective, trace, batch, student):
    labels = batch.labels[batch.predicted]
    chunk = Chunk(student, labels, torch.ones_like(labels, dtype=torch.bool), trace, slice(0, len(labels)))
    return sum(weight * part.each(chunk) for weight, part in objective.weighted)


def test_with_every_word_kept_it_is_word_level_distillation(two):
    batch, logits, _ = two
    student = torch.randn(6, WORDS, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    kept = Kept(logits, WORDS).answer(batch)
    live = Trace(tokens=Projection(logits))
    torch.testing.assert_close(
        loss(1.0 * Truncated(), kept, batch, student), loss(1.0 * WordKD(), live, batch, student)
    )


def test_the_recipe_without_its_teacher_is_smoothed_cross_entropy(two):
    batch, logits, owners = two
    student = torch.randn(6, WORDS, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    labels = batch.labels[batch.predicted]
    kept = Kept(logits, 4)
    alone = 1.0 * LanguageModeling(smoothing=0.1) + 0.0 * Truncated()
    smoothed = torch.nn.functional.cross_entropy(student, labels, reduction="none", label_smoothing=0.1)
    torch.testing.assert_close(loss(alone, kept.answer(batch), batch, student), smoothed)
    switch = Switch(kept, owners, {"en-de": 0.0, "de-en": 0.0}, THRESHOLD)
    switch.update({"bleu of en-de": 1.0, "bleu of de-en": 1.0})
    plain = torch.nn.functional.cross_entropy(student, labels, reduction="none")
    found = loss(MULTILINGUAL.objective(TASK), switch.answer(batch), batch, student)
    torch.testing.assert_close(found, 0.5 * smoothed + 0.5 * plain, rtol=0, atol=1e-12)
