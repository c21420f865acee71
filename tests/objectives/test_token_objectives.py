"""What must hold for every objective over tokens, and the formulas of those beside them."""

import math as numbers

import pytest
import torch
from torch.nn import functional as F

from limbeck.core.card import METHODS
from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.objective import TokenObjective, wants
from limbeck.core.task import WHOLE_KINDS, WINDOW_KINDS, TaskInfo
from limbeck.core.trace import Batch, Projection, Sampled, Trace, Want
from limbeck.functional.truncated import draw, top_of
from limbeck.objectives import (
    Cosine,
    GeneralisedJSD,
    Labels,
    LanguageModeling,
    NextSentence,
    SampledTargets,
    Truncated,
    WordKD,
)
from limbeck.objectives.weighted_sum import weighted_sum

WIDTH, VOCABULARY, PAD = 5, 37, 0
TASK = TaskInfo(kind="mask-fill", vocab_size=VOCABULARY)
KL = [
    WordKD(),
    WordKD(temperature=2.0),
    WordKD(reverse=1.0),
    WordKD(skew=0.1),
    WordKD(reverse=1.0, skew=0.1),
    WordKD(reverse=0.5, skew=0.5),
    GeneralisedJSD(),
    GeneralisedJSD(beta=0.0),
    GeneralisedJSD(beta=1.0, temperature=3.0),
    Truncated(k=4),
    Truncated(k=4, temperature=2.0),
    Truncated(k=VOCABULARY),
    Truncated(form="renorm-both", k=4),
    Truncated(form="renorm", k=VOCABULARY),
]  # 0 when both agree
OTHERS = [
    LanguageModeling(),
    Truncated(form="renorm", k=4),
    Truncated(form="raw", k=4),
    Truncated(form="renorm-both", k=1),
]
DRAWS = [SampledTargets(draws=7)]  # of a live teacher they change from call to call
EVERY = [*KL, *OTHERS]
BLENDS = [1.0 * each for each in EVERY] + [
    0.5 * LanguageModeling() + 0.3 * Truncated(k=4) + 0.2 * WordKD(temperature=2.0)
]


class Scene:
    """Texts of unequal length, some tokens asked for, some labelled; features and heads of both models."""

    def __init__(self, lengths=(9, 4, 6, 1), dtype=torch.float64, seed=0):
        torch.manual_seed(seed)
        shape = (len(lengths), max(lengths))
        self.present = torch.arange(shape[1]) < torch.tensor(lengths)[:, None]
        self.predicted = self.present & (torch.rand(shape) < 0.7)
        self.has_label = self.predicted & (torch.rand(shape) < 0.6)
        self.labels = torch.randint(VOCABULARY, shape).masked_fill(~self.has_label, -100)
        self.student_features, self.teacher_features = torch.randn(2, *shape, WIDTH, dtype=dtype)
        self.weight, self.teacher_weight = torch.randn(2, VOCABULARY, WIDTH, dtype=dtype)
        self.bias = torch.randn(VOCABULARY, dtype=dtype)

    def grad(self):
        for name in ("student_features", "weight", "bias"):
            setattr(self, name, getattr(self, name).detach().clone().requires_grad_())
        return self

    @property
    def gradients(self):
        return [self.student_features.grad, self.weight.grad, self.bias.grad]

    def batch(self, texts=slice(None)):
        asked, rows = self.predicted[texts], self.labels[texts]
        inputs = {"attention_mask": self.present[texts].long()}
        return Batch(TASK, torch.arange(len(rows)), rows, self.has_label[texts], inputs, asked)

    def student(self, texts=slice(None)):
        features = self.student_features[texts][self.predicted[texts]]
        return Trace(hidden=(self.student_features[texts],), tokens=Projection(features, self.weight, self.bias))

    def teacher(self, texts=slice(None)):
        features = self.teacher_features[texts][self.predicted[texts]]
        return Trace(hidden=(self.teacher_features[texts],), tokens=Projection(features, self.teacher_weight))

    def loss(self, objective, texts=slice(None), rows=None):
        return weighted_sum(objective, self.student(texts), self.teacher(texts), self.batch(texts), rows)

    def rows(self):
        counts = {"has_label": self.has_label, "in_loss": self.predicted, "present": self.present}
        return {name: mask.sum() for name, mask in counts.items()} | {"examples": torch.tensor(len(self.labels))}


def named(objective):
    return str(objective)


@pytest.mark.parametrize("objective", BLENDS, ids=named)
def test_the_loss_is_the_dense_one(objective):
    scene = Scene(dtype=torch.float32).grad()
    total, shown = scene.loss(objective)
    total.backward()
    found, scene = scene.gradients, Scene(dtype=torch.float32).grad()
    dense = 0.0
    for weight, part in objective.weighted:
        (name, mean), *rest = part.terms(scene.student(), scene.teacher(), scene.batch()).items()
        assert not rest
        assert torch.allclose(shown[name], mean.over(), atol=1e-6)
        dense = dense + weight * mean.over()
    dense.backward()
    assert torch.allclose(total, dense, atol=1e-6)
    # One float32 rounding of the largest slope, and of slopes near 1e-6 of it.
    assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(found, scene.gradients, strict=True))


@pytest.mark.parametrize("objective", KL, ids=named)
def test_a_student_that_equals_its_teacher_has_nothing_to_learn(objective):
    scene = Scene()
    scene.student_features, scene.weight = scene.teacher_features, scene.teacher_weight
    scene.bias = torch.zeros(VOCABULARY, dtype=torch.float64)
    total, _ = scene.grad().loss(1.0 * objective)
    total.backward()
    assert total.item() == pytest.approx(0, abs=1e-12)
    assert all(g.abs().max() < 1e-12 for g in scene.gradients)


@pytest.mark.parametrize("objective", EVERY, ids=named)
def test_padding_and_unasked_tokens_change_nothing(objective):
    scene, padded = Scene(), Scene()
    padded.present = F.pad(scene.present, (0, 5))
    padded.predicted, padded.has_label = F.pad(scene.predicted, (0, 5)), F.pad(scene.has_label, (0, 5))
    padded.labels = F.pad(scene.labels, (0, 5), value=PAD)
    for name in ("student_features", "teacher_features"):
        setattr(padded, name, F.pad(getattr(scene, name), (0, 0, 0, 5), value=torch.nan))
    (once, _), (again, _) = scene.grad().loss(1.0 * objective), padded.grad().loss(1.0 * objective)
    assert once.item() == again.item()
    once.backward()
    again.backward()
    assert torch.equal(scene.weight.grad, padded.weight.grad)
    assert (padded.student_features.grad[~padded.predicted] == 0).all()


@pytest.mark.parametrize("objective", EVERY, ids=named)
def test_repeating_the_batch_changes_nothing(objective):
    scene = Scene()
    twice = torch.arange(4).repeat(2)
    assert torch.allclose(scene.loss(1.0 * objective)[0], scene.loss(1.0 * objective, twice)[0], atol=1e-12)


@pytest.mark.parametrize("objective", [*EVERY, Cosine()], ids=named)
def test_unequal_micro_batches_give_the_gradient_of_one_batch(objective):
    blend = 0.5 * objective + 0.25 * LanguageModeling() + 0.25 * Cosine()
    whole, split = Scene().grad(), Scene().grad()
    whole.loss(blend)[0].backward()
    for texts in (slice(0, 1), slice(1, 3), slice(3, 4)):
        split.loss(blend, texts, split.rows())[0].backward()
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(whole.gradients, split.gradients, strict=True))


@pytest.mark.parametrize("size", [1e4, -1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("objective", [*EVERY, *DRAWS], ids=named)
def test_extreme_logits_and_half_precision_stay_finite(objective, dtype, size):
    scene = Scene(dtype=torch.float32)
    scene.bias[3], scene.bias[4] = size, -size
    for name in ("student_features", "teacher_features", "weight", "teacher_weight", "bias"):
        setattr(scene, name, getattr(scene, name).to(dtype))
    total, _ = scene.grad().loss(1.0 * objective)
    total.backward()
    assert torch.isfinite(total)
    assert all(torch.isfinite(g).all() for g in scene.gradients)


@pytest.mark.parametrize("objective", [*EVERY, *DRAWS], ids=named)
def test_nothing_asked_gives_zero_not_nan(objective):
    scene = Scene()
    scene.predicted, scene.has_label = (torch.zeros_like(scene.predicted) for _ in "ab")
    total, _ = scene.grad().loss(1.0 * objective)
    total.backward()
    assert total.item() == 0
    assert all((g == 0).all() for g in scene.gradients)


def test_asked_but_not_labelled_teaches_by_the_teacher_only():
    scene = Scene()
    scene.has_label = torch.zeros_like(scene.has_label)
    total, shown = scene.grad().loss(0.5 * LanguageModeling() + 0.5 * WordKD())
    total.backward()
    assert shown["language"] == 0
    assert total.item() == pytest.approx(0.5 * shown["word"].item())
    assert scene.weight.grad.abs().sum() > 0


def test_an_end_of_text_that_is_also_padding_is_a_word_like_any_other():
    scene = Scene()
    scene.labels[scene.has_label] = PAD
    log_q = scene.student().tokens.logits().log_softmax(-1)[scene.has_label[scene.predicted]]
    assert scene.loss(1.0 * LanguageModeling())[0].item() == pytest.approx(-log_q[:, PAD].mean().item(), rel=1e-12)


def test_a_weight_of_zero_needs_no_teacher_and_changes_nothing():
    scene = Scene()
    blend = 1.0 * LanguageModeling() + 0.0 * WordKD() + 0.0 * Truncated() + 0.0 * Cosine()
    assert wants(blend) == Want.NOTHING
    total, shown = weighted_sum(blend, scene.student(), Trace(), scene.batch())
    assert torch.equal(total, scene.loss(1.0 * LanguageModeling())[0])
    assert list(shown) == ["language"]


def test_two_terms_of_one_name_are_shown_as_their_sum():
    scene = Scene()
    one, two = (scene.loss(1.0 * WordKD(reverse=r))[0].item() for r in (0.0, 1.0))
    total, shown = scene.loss(0.5 * WordKD() + 0.25 * WordKD(reverse=1.0))
    assert total.item() == pytest.approx(0.5 * one + 0.25 * two, rel=1e-12)
    assert shown["word"].item() == pytest.approx(one + two, rel=1e-12)


# word by word


def test_language_is_the_cross_entropy_of_labelled_words():
    scene = Scene()
    logits = scene.student().tokens.logits()[scene.has_label[scene.predicted]]
    expected = F.cross_entropy(logits, scene.labels[scene.has_label])
    assert scene.loss(1.0 * LanguageModeling())[0].item() == pytest.approx(expected.item(), rel=1e-12)


def test_an_untrained_model_starts_at_the_logarithm_of_its_vocabulary():
    scene = Scene()
    scene.weight, scene.bias = torch.zeros_like(scene.weight), torch.zeros_like(scene.bias)
    assert scene.loss(1.0 * LanguageModeling())[0].item() == pytest.approx(numbers.log(VOCABULARY))


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_word_kd_carries_t_squared(temperature):
    scene = Scene()
    p, q = ((x.tokens.logits() / temperature).softmax(-1) for x in (scene.teacher(), scene.student()))
    expected = temperature**2 * (p * (p / q).log()).sum(-1).mean()
    assert scene.loss(1.0 * WordKD(temperature=temperature))[0].item() == pytest.approx(expected.item(), rel=1e-9)


def test_a_teacher_sure_of_one_word_is_a_label():
    scene = Scene()
    scene.has_label = scene.predicted
    sure = 1e4 * F.one_hot(scene.labels[scene.predicted].clamp(min=0), VOCABULARY).double()
    teacher = Trace(tokens=Projection(sure, torch.eye(VOCABULARY, dtype=torch.float64)))
    scene.labels = scene.labels.clamp(min=0)
    word, _ = weighted_sum(1.0 * WordKD(), scene.student(), teacher, scene.batch())
    assert word.item() == pytest.approx(scene.loss(1.0 * LanguageModeling())[0].item(), rel=1e-9)


def test_the_jsd_of_the_paper_is_ours_times_beta_and_its_rest():
    scene = Scene()
    p, q = (x.tokens.logits().softmax(-1) for x in (scene.teacher(), scene.student()))
    for beta in (0.1, 0.5, 0.9):
        middle = beta * p + (1 - beta) * q
        paper = beta * (p * (p / middle).log()).sum(-1) + (1 - beta) * (q * (q / middle).log()).sum(-1)
        ours = scene.loss(beta * (1 - beta) * GeneralisedJSD(beta=beta))[0]
        assert ours.item() == pytest.approx(paper.mean().item(), rel=1e-9)


@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
def test_the_jsd_carries_t_squared(beta):
    scene = Scene()
    p, q = ((x.tokens.logits() / 2).softmax(-1) for x in (scene.teacher(), scene.student()))
    middle = beta * p + (1 - beta) * q
    paper = beta * (p * (p / middle).log()).sum(-1) + (1 - beta) * (q * (q / middle).log()).sum(-1)
    found = scene.loss(1.0 * GeneralisedJSD(beta=beta, temperature=2.0))[0]
    assert found.item() == pytest.approx(4 * paper.mean().item() / (beta * (1 - beta)), rel=1e-9)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_the_ends_of_the_jsd_are_word_kd_at_the_same_temperature(temperature):
    for beta in (0.0, 1.0):
        ours, words = GeneralisedJSD(beta=beta, temperature=temperature), WordKD(reverse=beta, temperature=temperature)
        found = [Scene().loss(1.0 * objective)[0].item() for objective in (ours, words)]
        assert found[0] == pytest.approx(found[1], rel=1e-9)


# from a cache


def cached(scene, k, temperature=1.0):
    return Trace(top=top_of(scene.teacher().tokens.logits(), k, temperature))


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("form", ["tail", "renorm", "renorm-both", "raw"])
@pytest.mark.parametrize("k", [4, VOCABULARY])
def test_a_live_teacher_and_its_kept_top_are_one(form, k, temperature):
    scene = Scene()
    objective = 1.0 * Truncated(form=form, k=k, temperature=temperature)
    for held in {k, VOCABULARY}:  # a store that holds more serves less
        kept, _ = weighted_sum(objective, scene.student(), cached(scene, held, temperature), scene.batch())
        assert kept.item() == pytest.approx(scene.loss(objective)[0].item(), rel=1e-12)


@pytest.mark.parametrize("form", ["tail", "renorm", "renorm-both"])
def test_the_whole_vocabulary_is_word_kd(form):
    scene = Scene()
    word = scene.loss(1.0 * WordKD(temperature=2.0))[0].item()
    found = scene.loss(1.0 * Truncated(form=form, k=VOCABULARY, temperature=2.0))[0].item()
    assert found == pytest.approx(word, rel=1e-9)


def test_k_of_zero_takes_all_a_store_holds_and_fifty_of_a_live_teacher():
    scene = Scene()
    kept, _ = weighted_sum(1.0 * Truncated(), scene.student(), cached(scene, 4), scene.batch())
    assert kept.item() == pytest.approx(scene.loss(1.0 * Truncated(k=4))[0].item(), rel=1e-12)
    assert scene.loss(1.0 * Truncated())[0].item() == scene.loss(1.0 * Truncated(k=50))[0].item()


def test_drawn_targets_from_a_store_and_live():
    scene = Scene()
    logits = scene.teacher().tokens.logits()
    drawn = draw(logits, 9, generator=torch.Generator().manual_seed(5))
    log_q = scene.student().tokens.logits().log_softmax(-1)
    expected = -(drawn.weights * log_q.gather(-1, drawn.ids)).sum(-1).mean()
    found, shown = weighted_sum(1.0 * SampledTargets(), scene.student(), Trace(sampled=drawn), scene.batch())
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    assert list(shown) == ["sampled"]
    exact = -(logits.softmax(-1) * log_q).sum(-1).mean().item()
    torch.manual_seed(0)
    assert scene.loss(1.0 * SampledTargets(draws=20_000))[0].item() == pytest.approx(exact, rel=0.01)


def test_drawn_targets_carry_t_squared():
    scene = Scene()
    ids = scene.teacher().tokens.logits().argmax(-1, keepdim=True)
    drawn = Sampled(ids, torch.ones_like(ids, dtype=torch.float64), 2.0)
    log_q = (scene.student().tokens.logits() / 2).log_softmax(-1)
    found, _ = weighted_sum(1.0 * SampledTargets(temperature=2.0), scene.student(), Trace(sampled=drawn), scene.batch())
    assert found.item() == pytest.approx(-4 * log_q.gather(-1, ids).mean().item(), rel=1e-9)


@pytest.mark.parametrize(
    ("objective", "k", "temperature", "words"),
    [
        (Truncated(k=51), 50, 1.0, "holds 50.*--top 51"),
        (Truncated(temperature=2.0), 50, 1.0, "temperature 2 needs.*keeps it for 1.*temperature to 1, use.*renorm"),
        (Truncated(form="raw", temperature=3.0), 50, 2.0, "for 1 or 2"),
        (SampledTargets(temperature=2.0), 50, 1.0, "sampled.temperature to 1"),
    ],
)
def test_a_store_that_cannot_serve_is_refused_with_the_remedy(objective, k, temperature, words):
    with pytest.raises(MismatchError, match=f"(?s){words}"):
        objective.fits(k, temperature)


@pytest.mark.parametrize(
    ("objective", "k", "temperature"),
    [
        (Truncated(), 8, 1.0),
        (Truncated(k=8), 8, 2.0),
        (Truncated(temperature=2.0), 8, 2.0),
        (Truncated(form="renorm", temperature=7.0), 8, 2.0),
        (Truncated(form="renorm-both", temperature=0.5), 8, 1.0),
        (SampledTargets(draws=50, temperature=2.0), 8, 2.0),
    ],
)
def test_a_store_that_can_serve_is_taken(objective, k, temperature):
    assert objective.fits(k, temperature) is None


def test_wrong_knobs_are_refused():
    for knobs in ({"form": "tails"}, {"k": -1}, {"temperature": 0}):
        with pytest.raises(KnobError):
            Truncated(**knobs)
    for knobs in ({"reverse": 1.1}, {"skew": 1.0}, {"skew": -0.1}):
        with pytest.raises(KnobError):
            WordKD(**knobs)
    with pytest.raises(KnobError):
        GeneralisedJSD(beta=2)


# beside the words


def test_the_cosine_term():
    scene = Scene()
    ours, theirs = scene.student_features[scene.present], scene.teacher_features[scene.present]
    expected = (1 - (ours * theirs).sum(-1) / ours.norm(dim=-1) / theirs.norm(dim=-1)).mean()
    found, shown = scene.loss(1.0 * Cosine())
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    assert 0 <= shown["cosine"] <= 2
    scene.student_features = 3 * scene.teacher_features  # blind to length
    assert scene.loss(1.0 * Cosine())[0].item() == pytest.approx(0, abs=1e-12)
    scene.student_features = -scene.teacher_features
    assert scene.loss(1.0 * Cosine())[0].item() == pytest.approx(2, abs=1e-12)


def test_padding_may_hold_anything():
    scene = Scene()
    before = scene.loss(1.0 * Cosine())[0].item()
    scene.student_features[~scene.present] = torch.nan
    scene.teacher_features[~scene.present] = torch.inf
    assert scene.loss(1.0 * Cosine())[0].item() == before


def test_distilberts_sum_of_identical_models_is_twice_the_language_term():
    scene = Scene()
    scene.student_features, scene.weight = scene.teacher_features, scene.teacher_weight
    scene.bias = torch.zeros_like(scene.bias)
    for soft in (WordKD(temperature=2.0), Truncated(temperature=2.0, k=4)):
        total, shown = scene.loss(5.0 * soft + 2.0 * LanguageModeling() + 1.0 * Cosine())
        assert total.item() == pytest.approx(2 * shown["language"].item(), rel=1e-9)


def test_next_sentence():
    torch.manual_seed(0)
    logits, next_sentence_label = torch.randn(6, 2), torch.tensor([0, 1, 1, 0, 1, 0])
    mask = torch.zeros(6, 3, dtype=torch.bool)
    batch = Batch(TASK, torch.arange(6), mask.long(), mask, predicted=mask, next_sentence_label=next_sentence_label)
    found, shown = weighted_sum(1.0 * NextSentence(), Trace(logits), Trace(), batch)
    assert found.item() == pytest.approx(F.cross_entropy(logits, next_sentence_label).item(), rel=1e-6)
    assert list(shown) == ["next"]
    assert weighted_sum(1.0 * NextSentence(), Trace(torch.zeros(6, 2)), Trace(), batch)[0].item() == pytest.approx(
        numbers.log(2)
    )
    half, _ = weighted_sum(1.0 * NextSentence(), Trace(logits), Trace(), batch, {"examples": torch.tensor(12)})
    assert half.item() == pytest.approx(found.item() / 2, rel=1e-6)


def test_objectives_of_texts_and_of_tokens_do_not_serve_each_other():
    for card in METHODS.values():
        if issubclass(card.cls, TokenObjective) or card.cls in (Cosine, NextSentence):
            assert "mask-fill" in card.cls.serves, card.name
            assert not {*WHOLE_KINDS, *WINDOW_KINDS} & {*card.cls.serves}, card.name
    assert Labels().serves == (*WHOLE_KINDS, *WINDOW_KINDS)


def test_the_cards_explain_which_form_to_take():
    text = METHODS["truncated"].text
    assert "Which to take: `tail`" in text
    assert "docs/truncated.md" in text
