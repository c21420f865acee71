"""A language model's answers over a trimmed vocabulary: what went is in the rest, cached or live."""

from dataclasses import replace

import pytest
import torch

import limbeck
from limbeck.core.compress import Calibration, Mask
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, Chunk, Projection, Teacher, Trace, Want
from limbeck.functional.truncated import draw, drawn_cross_entropy, mix_with_labels, remapped, top_of, truncated_loss
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.remapped import RemappedTeacher
from limbeck.teachers.topk import Manifest, TopKCache
from tiny import VOCABULARY, make_tokenizer
from tiny_language import make_masked

FORMS = ("raw", "renorm", "renorm-both", "tail")
OLD_IDS = [0, 2, 3, 5, 8, 9, 11]


def random_logits(rows=6, vocabulary=12, seed=0, scale=2.0):
    draw = torch.Generator().manual_seed(seed)
    return scale * torch.randn(rows, vocabulary, generator=draw, dtype=torch.float64)


def reference(form, teacher, student, k, temperature):
    """Token by token, from probabilities: p over the old vocabulary, q over the new."""
    found = []
    for t, s in zip(teacher, student, strict=True):
        p, q = (t / temperature).softmax(0), (s / temperature).softmax(0)
        top = sorted(range(len(t)), key=lambda i: (-t[i].item(), i))[:k]
        stayed = [i for i in top if i in OLD_IDS]
        mine, theirs = p[stayed], q[[OLD_IDS.index(i) for i in stayed]]
        shares = mine / mine.sum()
        rest, left = 1 - mine.sum(), 1 - theirs.sum()
        tail = rest * (rest / left).log() if len(stayed) < len(s) else 0
        value = {
            "raw": -(mine * theirs.log()).sum(),
            "renorm": (shares * (shares / theirs).log()).sum(),
            "renorm-both": (shares * (shares / (theirs / theirs.sum())).log()).sum(),
            "tail": (mine * (mine / theirs).log()).sum() + tail,
        }
        found.append(value[form])
    return torch.stack(found)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("k", [3, 8, 12])
@pytest.mark.parametrize("form", FORMS)
def test_the_mass_of_what_went_joins_the_rest(form, k, temperature):
    teacher, student = random_logits(), random_logits(vocabulary=len(OLD_IDS), seed=1)
    top = remapped(top_of(teacher, k, temperature), OLD_IDS)
    log_q = (student / temperature).log_softmax(-1)
    found = truncated_loss(form, top, log_q, temperature)
    assert torch.allclose(found, reference(form, teacher, student, k, temperature), atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_its_gradient_is_finite_and_right(form):
    teacher, student = random_logits(), random_logits(vocabulary=len(OLD_IDS), seed=1).requires_grad_()
    top = remapped(top_of(teacher, 5), OLD_IDS)
    assert (top.ids < 0).any()
    assert torch.autograd.gradcheck(lambda z: truncated_loss(form, top, z.log_softmax(-1)), student)


def test_a_token_whose_whole_top_went():
    teacher = torch.full((1, 12), -3.0, dtype=torch.float64)
    teacher[0, [1, 4]] = 5.0
    top = remapped(top_of(teacher, 2), OLD_IDS)
    assert top.ids.tolist() == [[-1, -1]]
    log_q = random_logits(1, len(OLD_IDS)).log_softmax(-1)
    for form in FORMS:
        assert truncated_loss(form, top, log_q).item() == pytest.approx(0.0, abs=1e-9), "all is rest on both sides"
    mixed = mix_with_labels(top, torch.tensor([3]), torch.tensor([0.25]))
    assert mixed.ids.tolist() == [[3, -1]]
    assert mixed.log_p[0, 0].exp().item() == pytest.approx(0.75)


def test_a_student_that_is_sure_of_the_top():
    """Its rest is summed directly, over tokens that are not in the top."""
    student = torch.tensor([[30.0, 0, 0, 0, 0, 0, 0]], dtype=torch.float64)
    teacher = random_logits(1)
    top = remapped(top_of(teacher, 12).first(6), OLD_IDS)
    sure = student[:, torch.randperm(7, generator=torch.Generator().manual_seed(0))]
    expected = reference("tail", teacher, sure, 6, 1.0)
    assert torch.allclose(truncated_loss("tail", top, sure.log_softmax(-1)), expected, rtol=1e-6)


def test_draws_that_went_count_nothing():
    drawn = draw(random_logits(), 40, generator=torch.Generator().manual_seed(0))
    small = remapped(drawn, OLD_IDS)
    log_q = random_logits(vocabulary=len(OLD_IDS), seed=1).log_softmax(-1)
    expected = [
        -sum(w * q[OLD_IDS.index(i)] for i, w in zip(ids, weights, strict=True) if i in OLD_IDS)
        for ids, weights, q in zip(drawn.ids.tolist(), drawn.weights.tolist(), log_q.tolist(), strict=True)
    ]
    assert drawn_cross_entropy(small, log_q).tolist() == pytest.approx(expected)


@pytest.fixture(scope="module")
def trimmed():
    """A masked language model, its batch in old and in new ids, and the trimmed student's."""
    teacher, tokenizer = make_masked(layers=1, initializer_range=0.3), make_tokenizer()
    texts = ["the film is good", "a very dull plot", "the plot is good"]
    student = make_masked(layers=1, seed=1)
    change = limbeck.Vocabulary().apply(
        student, Mask(), Calibration(texts=[(text,) for text in texts], processor=tokenizer)
    )
    old_ids = [
        VOCABULARY.index(piece) for piece in change.processor.convert_ids_to_tokens(range(len(change.processor)))
    ]
    old, new = (
        batch_of(one, texts, size) for one, size in ((tokenizer, len(VOCABULARY)), (change.processor, len(old_ids)))
    )
    return teacher, student, old, new, old_ids


def batch_of(tokenizer, texts, vocabulary):
    inputs = dict(tokenizer(texts, return_tensors="pt", padding=True))
    ids = inputs["input_ids"]
    task = TaskInfo(kind="mask-fill", vocab_size=vocabulary)
    return Batch(task, torch.arange(3), ids, torch.ones_like(ids).bool(), inputs, ids > 4)


class TopOnly(Teacher):
    """A live teacher that shows the top of what it says."""

    has = Want.TOP

    def __init__(self, teacher, k):
        self.teacher, self.k = teacher, k

    def answer(self, batch):
        return Trace(top=top_of(self.teacher.answer(batch).tokens.logits(), self.k))


def test_a_live_and_a_cached_teacher_say_the_same(trimmed, tmp_path):
    teacher, student, old, new, old_ids = trimmed
    live = LiveTeacher(teacher)
    with TopKCache(tmp_path, Manifest(k=8, vocabulary=len(VOCABULARY)), write=True) as cache:
        cache.fill(live, [old])
    cached = RemappedTeacher(cache.teacher(), old_ids).answer(new)
    shown = RemappedTeacher(TopOnly(live, 8), old_ids).answer(new)
    assert cached.has == RemappedTeacher(cache.teacher(), old_ids).has == Want.TOP
    assert torch.equal(cached.top.ids, shown.top.ids)
    assert (cached.top.ids < 0).any()
    assert cached.top.ids.max() < len(old_ids)
    log_q = student(**new.inputs).logits[new.predicted].log_softmax(-1).detach()
    for form in FORMS:
        losses = [truncated_loss(form, one.top, log_q) for one in (cached, shown)]
        assert torch.allclose(*losses, atol=0.015), "but for the rounding of the cache"


def test_a_live_teacher_reads_its_own_ids_and_shows_the_tokens_that_stayed(trimmed):
    teacher, _, old, new, old_ids = trimmed
    live = LiveTeacher(teacher)
    before, after = live.answer(old).tokens.logits(), RemappedTeacher(live, old_ids).answer(new).tokens
    assert torch.allclose(after.logits(), before[:, old_ids], atol=1e-6)
    assert after.vocabulary == len(old_ids)


def test_without_mass_on_what_went_a_live_teacher_is_a_cached_one(trimmed, tmp_path):
    """The loss of the objective itself."""
    teacher, student, old, new, old_ids = trimmed
    gone = [number for number in range(len(VOCABULARY)) if number not in old_ids]

    class Sure(Teacher):
        has = Want.LOGITS

        def answer(self, batch):
            logits = LiveTeacher(teacher).answer(batch).tokens.logits().clone()
            logits[:, gone] = -60.0
            return Trace(tokens=Projection(logits))

    with TopKCache(tmp_path, Manifest(k=5, vocabulary=len(VOCABULARY)), write=True) as cache:
        cache.fill(Sure(), [old])
    logits = student(**new.inputs).logits[new.predicted].detach()
    labels = new.labels[new.predicted]
    chunks = [
        Chunk(logits, labels, torch.ones_like(labels).bool(), RemappedTeacher(one, old_ids).answer(new), slice(None))
        for one in (Sure(), cache.teacher())
    ]
    for form in FORMS:
        live, cached = (limbeck.Truncated(form=form, k=5).each(chunk) for chunk in chunks)
        assert torch.allclose(live, cached, atol=0.015), form


def test_answers_to_texts_pass_unchanged():
    class Classifier(Teacher):
        has = Want.LOGITS

        def answer(self, batch):
            return Trace(logits=torch.ones(2, 3))

    batch = Batch(TaskInfo(kind="classify", labels=("a", "b")), torch.arange(2), torch.zeros(2), torch.ones(2).bool())
    assert torch.equal(RemappedTeacher(Classifier(), OLD_IDS).answer(replace(batch)).logits, torch.ones(2, 3))
