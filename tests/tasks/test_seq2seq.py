"""What must not change the loss of a translator, and what it must be: from pairs of texts to a number."""

import math

import numpy as np
import pytest
import torch

from limbeck import distill
from limbeck.core.forward import forward
from limbeck.core.objective import Objective
from limbeck.core.task import TaskInfo
from limbeck.core.trace import NoTeacher, Projection, Request, Trace, Want
from limbeck.data.batches import Collator, batches, to_batch
from limbeck.data.seq2seq.pairs import Parallel
from limbeck.data.seq2seq.sequences import Sequences, encode_sequences
from limbeck.data.seq2seq.subwords import train_subwords
from limbeck.data.uids import source_uids
from limbeck.engines.transformers import TransformersEngine
from limbeck.measure.seq2seq_evaluator import Seq2SeqEvaluator
from limbeck.measure.tokens import token_statistics
from limbeck.objectives import LanguageModeling, Truncated, WordKD
from limbeck.objectives.weighted_sum import weighted_sum
from limbeck.students.seq2seq import Seq2SeqConfig, decoder_start, new_seq2seq
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.settings import TranslateSettings
from limbeck.teachers.topk import Manifest, TopKCache, TopKTeacher
from limbeck.training.schedule import Schedule
from limbeck.training.trainer import Distiller
from tiny_reverser import make_tokenizer
from tongues import WORDS as WORDS_OF
from tongues import sentences, translate

pytestmark = pytest.mark.slow

SOURCES = sentences(24, seed=3)
TARGETS = [translate(source) for source in SOURCES]
PIECES = train_subwords([*sentences(200), *map(translate, sentences(200))], 90)
PIECES.model_max_length = 64
WORDS = len(PIECES)
TASK = TaskInfo(kind="translate", vocab_size=WORDS)
LIVE = Request(Want.LOGITS | Want.TOP)
BLEND = 0.5 * LanguageModeling(smoothing=0.1) + 0.3 * WordKD(temperature=2.0) + 0.2 * Truncated(k=7)


def make_model(seed: int = 0, hidden: int = 16, tokenizer=PIECES):
    """Random, and sure enough of itself that its answers differ."""
    torch.manual_seed(seed)
    shape = {"hidden": hidden, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "positions": 64, "dropout": 0.0}
    model = new_seq2seq(Seq2SeqConfig(**shape), tokenizer)
    with torch.no_grad():
        model.model.shared.weight.mul_(3)
    return model


def encoded(model, tokenizer=PIECES, sources=SOURCES, targets=TARGETS):
    return encode_sequences(sources, targets, tokenizer, decoder_start(model), 64)


def batch_of(rows, order=None, extra: int = 0, pad: int = PIECES.pad_token_id):
    """The rows as one batch, with `extra` columns of padding on both sides."""
    tensors = Collator(pad, TASK)([rows[row] for row in (range(len(rows)) if order is None else order)])
    fill = {"input_ids": pad, "decoder_input_ids": pad}
    padded = {
        name: torch.nn.functional.pad(tensor, (0, extra), value=fill.get(name, 0)) if tensor.dim() == 2 else tensor
        for name, tensor in tensors.items()
    }
    return to_batch(padded, TASK)


def measured(objective: Objective, model, teacher, parts, whole=None):
    """The loss over several batches and the gradient that they leave; `whole` is the step that they are parts of."""
    model.zero_grad()
    rows = None
    if whole is not None:
        rows = {"has_label": whole.has_label.sum(), "in_loss": whole.in_loss.sum()}
    total = 0.0
    for batch in parts:
        value, _ = weighted_sum(objective, forward(model, batch, vocabulary=WORDS), teacher.answer(batch), batch, rows)
        value.backward()
        total += value.item()
    return total, torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.fixture(scope="module")
def teacher():
    return LiveTeacher(make_model(seed=1, hidden=24), LIVE, WORDS)


def assert_alike(one, other):
    near = 1e-9 if one[1].dtype == torch.float64 else 1e-5
    assert one[0] == pytest.approx(other[0], abs=near)
    assert torch.allclose(one[1], other[1], atol=near)


@pytest.mark.parametrize(
    "objective",
    [1.0 * LanguageModeling(), 1.0 * LanguageModeling(smoothing=0.3), 1.0 * WordKD(), 1.0 * Truncated(k=5), BLEND],
    ids=str,
)
def test_how_pairs_are_batched_changes_nothing(objective):
    model, teacher = make_model().double(), LiveTeacher(make_model(seed=1, hidden=24).double(), LIVE, WORDS)
    rows = encoded(model)
    whole = batch_of(rows)
    wanted = measured(objective, model, teacher, [whole])
    assert wanted[1].norm() > 1e-3
    assert_alike(measured(objective, model, teacher, [batch_of(rows, extra=9)]), wanted)
    shuffled = np.random.default_rng(0).permutation(len(rows)).tolist()
    assert_alike(measured(objective, model, teacher, [batch_of(rows, shuffled)]), wanted)
    assert_alike(measured(objective, model, teacher, [batch_of(rows, [*shuffled, *shuffled])]), wanted)
    parts = [batch_of(rows, part) for part in (shuffled[:1], shuffled[1:6], shuffled[6:])]
    assert len({int(part.in_loss.sum()) for part in parts}) == 3
    assert_alike(measured(objective, model, teacher, parts, whole), wanted)


def test_a_tokenizer_that_pads_with_its_end_loses_no_end(teacher):
    """Padding is told by place: the last token of a target counts, those behind it do not."""
    ends = train_subwords([*sentences(200), *map(translate, sentences(200))], 90)
    ends.pad_token, ends.model_max_length = ends.eos_token, 64
    model = make_model(tokenizer=ends)
    rows = encoded(model, ends)
    pad = ends.pad_token_id
    assert pad == ends.eos_token_id
    wanted = measured(1.0 * LanguageModeling(), model, NoTeacher(), [batch_of(rows, pad=pad)])
    assert_alike(measured(1.0 * LanguageModeling(), model, NoTeacher(), [batch_of(rows, pad=pad, extra=5)]), wanted)
    each, tokens = 0.0, 0
    for source, target in zip(SOURCES, TARGETS, strict=True):
        value, count = plain_nats(model, ends, source, target)
        each, tokens = each + value, tokens + count
    assert wanted[0] == pytest.approx(each / tokens, abs=1e-5)


@torch.no_grad()
def plain_log_q(model, tokenizer, source: str, target: str):
    """[tokens, words] float64, and the tokens: one sentence alone, as anyone would write it down."""
    given = tokenizer(source, return_tensors="pt").input_ids
    labels = tokenizer(text_target=target, return_tensors="pt").input_ids
    start = torch.full_like(labels[:, :1], model.config.decoder_start_token_id)
    before = torch.cat([start, labels[:, :-1]], 1)
    logits = model(input_ids=given, attention_mask=torch.ones_like(given), decoder_input_ids=before).logits
    return logits[0].double().log_softmax(-1), labels[0]


def plain_nats(model, tokenizer, source: str, target: str) -> tuple[float, int]:
    log_q, labels = plain_log_q(model, tokenizer, source, target)
    return -log_q.gather(-1, labels[:, None]).sum().item(), len(labels)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_smoothing_is_that_of_a_plain_loop(model, smoothing):
    total = tokens = 0
    for source, target in zip(SOURCES, TARGETS, strict=True):
        log_q, labels = plain_log_q(model, PIECES, source, target)
        for place, word in enumerate(labels.tolist()):
            spread = sum(log_q[place].tolist()) / WORDS
            total -= (1 - smoothing) * log_q[place, word].item() + smoothing * spread
            tokens += 1
    found, _ = measured(1.0 * LanguageModeling(smoothing=smoothing), model, NoTeacher(), [batch_of(encoded(model))])
    assert found == pytest.approx(total / tokens, abs=1e-5)


def test_a_student_that_is_its_teacher_learns_nothing(model):
    itself = LiveTeacher(make_model(), LIVE, WORDS)
    batch = batch_of(encoded(model))
    value, gradient = measured(1.0 * WordKD(), model, itself, [batch])
    assert value == pytest.approx(0, abs=1e-6)
    assert gradient.abs().max() < 1e-6
    _, slope = measured(1.0 * LanguageModeling(), model, itself, [batch])
    assert slope.norm() > 0.1, "the same batch has something to teach"


def traces(student: torch.Tensor, teacher: torch.Tensor):
    """Two positions of one sentence with these logits, whatever a model would say."""
    batch = batch_of(Sequences([[5, 0]], [[7, 0]], PIECES.pad_token_id))
    tensors = [torch.cat([each, torch.full((2, WORDS - each.shape[1]), -1e9)], 1) for each in (student, teacher)]
    identity = torch.eye(WORDS)
    return batch, *(Trace(tokens=Projection(each, identity, torch.zeros(WORDS))) for each in tensors)


def test_two_positions_by_hand():
    """methods.md §3: the logits of §1 at T = 1. Cross-entropy is KL and the teacher's entropy."""
    student = torch.tensor([[1.0, 1.5, 0.0]] * 2)
    teacher = torch.tensor([[2.0, 1.0, 0.1]] * 2)
    batch, said, taught = traces(student, teacher)
    assert int(batch.in_loss.sum()) == 2
    kl, _ = weighted_sum(1.0 * WordKD(), said, taught, batch)
    p = teacher[0].double().softmax(-1)
    entropy = -(p * p.log()).sum().item()
    assert kl.item() + entropy == pytest.approx(1.081480, abs=1e-6)
    assert 2 * (kl.item() + entropy) == pytest.approx(2.162960, abs=2e-6)


def test_a_teacher_that_is_certain_is_the_words_themselves(model):
    rows = encoded(model)
    batch = batch_of(rows)
    labels = batch.labels[batch.in_loss]
    certain = torch.nn.functional.one_hot(labels, WORDS).float() * 200
    taught = Trace(tokens=Projection(certain, torch.eye(WORDS), torch.zeros(WORDS)))
    said = forward(model, batch, vocabulary=WORDS)
    by_teacher, _ = weighted_sum(1.0 * WordKD(), said, taught, batch)
    by_words, _ = weighted_sum(1.0 * LanguageModeling(), said, taught, batch)
    assert by_teacher.item() == pytest.approx(by_words.item(), abs=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_words_kept_on_disk_teach_what_the_live_teacher_does(model, teacher, tmp_path, temperature):
    rows = encoded(model)
    batch = batch_of(rows)
    live, slope = measured(1.0 * WordKD(temperature=temperature), model, teacher, [batch])
    collator = Collator(PIECES.pad_token_id, TASK)
    for k in (WORDS, 50):
        about = Manifest(kind="top", k=k, vocabulary=WORDS, temperature=temperature, fingerprints={"teacher": "x"})
        store = TopKCache(tmp_path / str(k), about, write=True)
        store.fill(teacher, batches(rows, collator, 5), lambda done: None)
        store.close()
        kept = TopKTeacher(TopKCache(tmp_path / str(k), about))
        value, gradient = measured(1.0 * Truncated(temperature=temperature), model, kept, [batch])
        exact, _ = measured(1.0 * Truncated(k=k, temperature=temperature), model, teacher, [batch])
        assert value == pytest.approx(exact, rel=1e-3), "only by the rounding of what is kept"
        assert exact <= live + 1e-5, "a lower bound of the whole"
        if k == WORDS:
            assert exact == pytest.approx(live, abs=1e-5)
            assert (gradient - slope).norm() < 0.01 * slope.norm()


@pytest.mark.parametrize("recipe", ["word-kd", "seq-kd"])
def test_a_run_leaves_its_teacher_as_it_was(tmp_path, recipe):
    network = make_model(hidden=32)
    network.train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    pairs = [{"source": source, "target": translate(source)} for source in sentences(130)]
    brief = {"epochs": 1, "batch_size": 16, "learning_rate": 1e-2, "evals_per_epoch": 1, "threads": 1}
    writing = {"longest": 4, "beam": 2, "test_beam": 2, "ratio": 1000.0, "cut": True, "engine": "transformers"}
    made = distill(
        network, pairs, tokenizer=PIECES, out=tmp_path / "run", recipe=recipe, baseline=False, train=brief,
        translate=writing, reading={"task": "translate"}, teacher_cache={"live": True}, measure={"speed": False},
    )  # fmt: skip
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
    assert not any(module.training for module in network.modules())
    assert not all(torch.equal(tensor, before.get(name, tensor)) for name, tensor in made.student.state_dict().items())


def make_evaluator(model, sources=SOURCES, targets=TARGETS) -> Seq2SeqEvaluator:
    texts = Parallel(list(sources), list(targets), source_uids(sources))
    return Seq2SeqEvaluator(TASK, PIECES, decoder_start(model), texts, texts, TranslateSettings(test_beam=3), 64)


def test_perplexity_is_that_of_a_plain_loop(model):
    told = [plain_nats(model, PIECES, source, target) for source, target in zip(SOURCES, TARGETS, strict=True)]
    wanted = math.exp(sum(nats for nats, _ in told) / sum(count for _, count in told))
    found = make_evaluator(model).test(model).scores
    assert found["perplexity"] == pytest.approx(wanted, rel=1e-5)
    assert make_evaluator(model).dev_metrics(model)["perplexity"] == pytest.approx(wanted, rel=1e-5)


def test_a_sentence_that_stands_twice_is_counted_twice(model):
    once, twice = make_evaluator(model), make_evaluator(model, [*SOURCES, SOURCES[0]], [*TARGETS, TARGETS[0]])
    (one, *_), (two, *_) = (tokens_of(evaluator, model) for evaluator in (once, twice))
    assert two == one + plain_nats(model, PIECES, SOURCES[0], TARGETS[0])[1]


def tokens_of(evaluator, model):
    nats, counts = evaluator._nats(model, evaluator.dev)
    return counts.sum(), nats.sum()


@pytest.fixture(scope="module")
def taught():
    """A model that has learnt a little, so that it ends what it writes; of whole words, since these are cut one way."""
    whole = make_tokenizer([*WORDS_OF, *WORDS_OF.values()])
    model, texts = make_model(hidden=32, tokenizer=whole), sentences(300)
    rows = encoded(model, whole, texts, [translate(source) for source in texts])
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(60):
        batch = batch_of(rows, [(step * 32 + place) % len(rows) for place in range(32)], pad=whole.pad_token_id)
        value, _ = weighted_sum(1.0 * LanguageModeling(), forward(model, batch), Trace(), batch)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
    return model.eval(), whole


@pytest.mark.parametrize("beam", [1, 4])
def test_surprise_at_what_one_wrote_oneself_is_minus_its_log_p(taught, beam):
    """methods.md §4: NLL on the distilled set of a model identical to the teacher is −log q(ŷ|s).

    q is over the words that may be written: all but the pad."""
    model, whole = taught
    best = [one[0] for one in TransformersEngine(model, whole).translate(SOURCES, beam)]
    rows = encoded(model, whole, targets=[one.text for one in best])
    found = token_statistics(model, batches(rows, Collator(whole.pad_token_id, TASK), 8))
    nats = dict(zip(found.uids.tolist(), found.sums[:, 0], strict=True))
    ended = [place for place in range(len(rows)) if len(rows.target(place)) <= len(rows.source(place)) + 8]
    assert len(ended) > 15, "the others were cut at their longest: without an end they are other texts"
    for place in ended:
        log_q, written = plain_log_q(model, whole, SOURCES[place], best[place].text)
        assert written.tolist() == rows.target(place).tolist()
        allowed = torch.log1p(-log_q[:, whole.pad_token_id].exp()).sum().item()
        assert nats[int(rows.uids[place])] + allowed == pytest.approx(-best[place].log_p, abs=2e-4)


def test_steps_cut_into_micro_batches_train_the_same_student(teacher, tmp_path):
    """Through the loop itself: three of four rows, or one of twelve."""

    def trained(name: str, **how):
        student = make_model(seed=2)
        rows, evaluator = encoded(student), make_evaluator(student)
        schedule = Schedule(epochs=2, learning_rate=1e-3, max_grad_norm=0, bucket=False, evals_per_epoch=1, **how)
        trainer = Distiller(
            student, objective=BLEND, teacher=teacher, task=TASK, schedule=schedule, train=rows, dev=evaluator.dev,
            collate=evaluator.collate, folder=tmp_path / name, seed=0, dev_metrics=evaluator.dev_metrics,
        )  # fmt: skip
        trainer.train()
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry], student

    (one, whole), (many, parts) = trained("one", batch_size=12), trained("many", batch_size=4, accumulate=3)
    assert len(one) == 4
    assert one == pytest.approx(many, abs=1e-5)
    other = dict(parts.named_parameters())
    for name, weight in whole.named_parameters():
        # a key's bias shifts all scores alike: its slope is rounding, which Adam makes as large as any
        assert "k_proj.bias" in name or torch.allclose(weight, other[name], atol=1e-4), name
