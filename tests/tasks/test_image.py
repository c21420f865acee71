"""Images through the pipeline: train, distill, compare, eval, predict, tickets, with the parts that texts use."""

import csv

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback

import limbeck
from limbeck.core.errors import KnobError, LimbeckError, MismatchError
from limbeck.core.progress import Silent
from limbeck.core.record import Record
from limbeck.core.ticket import Ticket
from limbeck.data.image.images import read_images
from limbeck.jobs.settings import Run
from limbeck.jobs.ticket_settings import TicketRun
from limbeck.report import Report
from limbeck.tasks.base import ALL, Model, task_of
from tiny_images import make_folder, make_images

TRAIN = {"epochs": 2, "batch_size": 20, "evals_per_epoch": 1}
KNOBS = {"task": "image", "train": TRAIN, "measure": {"speed": False, "bootstrap": 100}}
NETWORK = {"hidden": "12,6"}
STUDENT = {"hidden": "5"}
TAUGHT = {**KNOBS, "train": {**TRAIN, "epochs": 6, "learning_rate": 0.01}}


class Stop(TrainerCallback):
    """Ends a run at a step, as Ctrl-C does."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, *_, **__):
        if state.global_step == self.step:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("images"))


def train(folder, out, **knobs):
    return limbeck.train(data=folder, out=out, **{**KNOBS, "network": NETWORK, **knobs})


@pytest.fixture(scope="module")
def teacher(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("teacher")
    train(folder, out, train={**TRAIN, "epochs": 12}, command="limbeck train")
    return out


def weights(folder):
    return load_file(folder / "model.safetensors")


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_a_trained_network_beats_the_floor_and_is_told_in_images(teacher):
    record = Record.load(teacher)
    assert record.arms[0].runs[0].quality["accuracy"] > 0.8 > record.floor.quality["accuracy"]
    assert record.arms[0].title == "64-12-6-4, trained on labels"
    assert np.sum(record.arms[0].runs[0].confusion) == 120
    for text in (Report((record,)).html(), Report((record,)).markdown()):
        assert "120 images" in text
        assert "sentence" not in text.replace("said sentences", "")
        assert "Traceback" not in text


def test_every_seed_draws_its_own_start_and_the_same_seed_the_same(folder, tmp_path):
    one, again, other = (train(folder, tmp_path / name, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1)))
    first, second, third = (weights(result.folder / "model") for result in (one, again, other))
    assert same(first, second)
    assert not torch.equal(first["body.0.weight"], third["body.0.weight"])


@pytest.fixture(scope="module")
def distilled(folder, teacher, tmp_path_factory):
    out = tmp_path_factory.mktemp("distilled")
    return limbeck.distill(teacher, folder, out=out, **TAUGHT, network=STUDENT, recipe="hinton")


def test_a_distilled_student_is_a_new_network_with_its_baseline(distilled):
    record = distilled.record
    titles = [arm.title for arm in record.arms]
    assert titles == ["teacher, 64-12-6-4", "64-5-4, labels only", "64-5-4, distilled"]
    assert record.arms[2].runs[0].fidelity.agreement > 0.5
    assert record.comparisons[0].rows == 120
    assert record.arms[2].start == "fresh weights"
    assert "test images" in record.comparisons[0].sentence
    assert record.disagreements[0].text.endswith("of t10k-images-idx3-ubyte.gz")
    html = distilled.report.html()
    assert "64-5-4" in html
    assert "Traceback" not in html


def test_a_live_teacher_teaches_what_its_cache_does(folder, teacher, distilled, tmp_path):
    live = limbeck.distill(
        teacher, folder, out=tmp_path, **TAUGHT, network=STUDENT, recipe="hinton", teacher_cache={"live": True}
    )
    cached, found = (weights(result.folder / "student") for result in (distilled, live))
    for name, value in cached.items():
        assert torch.allclose(found[name], value, atol=1e-4), name
    assert live.record.arms[2].runs[0].quality == pytest.approx(distilled.record.arms[2].runs[0].quality, abs=1e-3)


def test_a_teacher_averaged_with_itself_teaches_what_it_does_alone(folder, teacher, distilled, tmp_path):
    both = limbeck.distill([teacher] * 2, folder, out=tmp_path, **TAUGHT, network=STUDENT, recipe="hinton")
    assert [arm.name for arm in both.record.arms][:3] == ["teacher", "teacher-1", "teacher-2"]
    alone, found = (weights(result.folder / "student") for result in (distilled, both))
    for name, value in alone.items():
        assert torch.allclose(found[name], value, atol=1e-4), name


def test_a_column_has_jitter_labels_and_network_of_its_own(folder, teacher, tmp_path):
    columns = {
        "shifted": {"recipe": "finetune", "image": {"jitter": 1}},
        "some": {"recipe": "hinton", "image": {"train_labels": "0,2"}},
        "wide": {"recipe": "hinton", "network": {"hidden": "9"}},
    }
    found = limbeck.compare(teacher, folder, "finetune,hinton", out=tmp_path, **KNOBS, network=STUDENT, columns=columns)
    assert not found.record.failed
    baselines = {one.better: one.than for one in found.record.comparisons}
    assert baselines == {"hinton": "finetune", "some": "plain-some", "wide": "plain-wide"}
    shapes = {arm.name: arm.shape.text for arm in found.record.arms}
    assert (shapes["hinton"], shapes["wide"]) == ("64-5-4", "64-9-4")
    plain, shifted = (weights(tmp_path / "arms" / f"{name}-seed0" / "model") for name in ("finetune", "shifted"))
    assert not same(plain, shifted), "they learn from other pixels"
    some = next(arm for arm in found.record.arms if arm.name == "plain-some").runs[0]
    assert {one.rows for one in some.per_class} == {row.rows for row in found.record.arms[0].runs[0].per_class}
    assert [one.recall for one in some.per_class][1::2] == [0.0, 0.0], "what was never seen is never said"
    assert "64-9-4" in found.report.html()


def encoded(folder, **image):
    run = Run(
        **{**{key: value for key, value in KNOBS.items() if key != "task"}, "data": {"task": "image"}}, image=image
    )
    task = task_of(run, None)
    splits = task.read(str(folder), None, Silent())
    task = task.settled(splits)
    return splits, task.encode(splits, Model(None, splits.processor), Silent())


def test_jitter_and_labels_concern_training_rows_alone(folder):
    splits, data = encoded(folder, jitter=2, train_labels="1,3")
    assert data.rows[ALL].jitter == 2
    assert set(data.rows[ALL].labels.tolist()) == {1, 3}
    assert data.card.splits["train"].rows == len(data.rows[ALL]) < len(splits.train)
    assert [split.jitter for split in data.evaluator.splits.values()] == [0, 0, 0]
    assert [split.jitter for split in data.for_teacher] == [0, 0, 0]
    assert [len(split) for split in data.for_teacher] == [len(part) for part in splits.splits.values()]
    for wrong in ("7", "none"):
        with pytest.raises(KnobError, match=f"there is no label '{wrong}'"):
            encoded(folder, train_labels=f"1,{wrong}")


def test_a_resumed_run_with_jitter_ends_as_an_unbroken_one(folder, tmp_path):
    how = {"image": {"jitter": 2}, "train": {**TRAIN, "epochs": 3}}
    train(folder, tmp_path / "whole", **how)
    with pytest.raises(KeyboardInterrupt):
        train(folder, tmp_path / "broken", **how, callbacks=[Stop(25)])  # in the second epoch
    assert not (tmp_path / "broken" / "record.json").exists()
    train(folder, tmp_path / "broken", **how, resume=True)
    assert same(weights(tmp_path / "whole" / "model"), weights(tmp_path / "broken" / "model"))
    train(folder, tmp_path / "other", **{**how, "image": {"jitter": 2, "seed": 1}})
    assert not same(weights(tmp_path / "whole" / "model"), weights(tmp_path / "other" / "model"))


class Norms(TrainerCallback):
    def __init__(self):
        self.longest = []

    def on_step_end(self, args, state, control, model=None, **_):
        self.longest.append(max(layer.weight.norm(dim=1).max().item() for layer in model.body))


def test_max_norm_is_held_after_every_step(folder, tmp_path):
    norms, most = Norms(), 0.7
    free = Norms()
    train(folder, tmp_path / "held", network={**NETWORK, "max_norm": most}, callbacks=[norms])
    train(folder, tmp_path / "free", callbacks=[free])
    assert len(norms.longest) > 30
    assert max(norms.longest) <= most * (1 + 1e-5)
    assert min(free.longest) > most, "the test would pass without it"


def test_sgd_with_momentum_is_another_optimiser(folder, tmp_path):
    """One step of one batch without decay: θ₁ = θ₀ − rate · gradient, so that twice the rate moves twice as far."""
    flat = {"optimizer": "sgd", "warmup": 0.0, "decay": "constant", "weight_decay": 0.0, "max_grad_norm": 0.0}
    flat |= {"max_steps": 1, "batch_size": 400, "keep": "last"}
    ends = []
    for number, rate in enumerate((1e-9, 0.01, 0.02)):
        train(folder, tmp_path / str(number), train={**flat, "learning_rate": rate})
        ends.append(weights(tmp_path / str(number) / "model")["classifier.weight"])
    assert torch.allclose(ends[2] - ends[0], 2 * (ends[1] - ends[0]), atol=1e-6)
    assert (ends[1] - ends[0]).abs().max() > 1e-5


def test_eval_and_predict_agree(folder, teacher, distilled, tmp_path):
    record = limbeck.evaluate(distilled.folder, folder, teacher)
    quality = record.arms[-1].runs[0].quality
    assert quality["accuracy"] == distilled.record.arms[2].runs[0].quality["accuracy"]
    assert record.arms[-1].runs[0].fidelity.agreement == distilled.record.arms[2].runs[0].fidelity.agreement
    file = folder / "t10k-images-idx3-ubyte.gz"
    answers = limbeck.predict(distilled.folder, file, out=tmp_path / "answers.csv")
    labels = [str(label) for label in make_images(120, 2)[1]]
    right = [answer["label"] == label for answer, label in zip(answers, labels, strict=True)]
    assert np.mean(right) == pytest.approx(quality["accuracy"])
    with (tmp_path / "answers.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [row["label"] for row in rows] == [answer["label"] for answer in answers]
    assert rows[3]["image"] == "3"
    with pytest.raises(LimbeckError, match="images, not texts"):
        limbeck.predict(distilled.folder, ["a text"])


@pytest.mark.slow
def test_bench_times_and_scores_image_models(folder, teacher, distilled):
    found = limbeck.bench([teacher, distilled.folder], folder, measure={"repeats": 1, "rounds": 20})
    assert all(arm.speed.p50_ms > 0 for arm in found.arms)
    assert found.arms[1].runs[0].quality["accuracy"] == distilled.record.arms[2].runs[0].quality["accuracy"]
    assert "image" in Report((found,)).html()


@pytest.fixture(scope="module")
def ticket(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("ticket")
    return limbeck.find_ticket(data=folder, out=out, rounds=3, seed=4, **KNOBS, network={"hidden": "50,20"})


def test_a_ticket_of_a_network_loses_a_fifth_of_each_layer_and_a_tenth_of_the_last(ticket):
    """64-50-20-4: 3,200 and 1,000 weights by 20 %, 80 by 10 %, exactly."""
    expected = [(3200, 1000, 80)]
    for _ in range(3):
        one, two, last = expected[-1]
        expected.append((one - round(0.2 * one), two - round(0.2 * two), last - round(0.1 * last)))
    assert expected[-1][:2] == (1638, 512), "51.2 % of the hidden layers"
    levels = ticket.record.arms[0].runs[0].levels
    assert [level.remaining for level in levels] == [sum(counts) for counts in expected]
    for number in (1, 2, 3):
        mask = Ticket.load(ticket.folder / f"arms/model-seed4/tickets/round-{number:02d}.safetensors").mask
        assert tuple(int(live.sum()) for live in mask.live.values()) == expected[number]


def test_a_rewound_ticket_is_its_mask_over_the_start_to_the_bit(folder, ticket):
    found = Ticket.load(ticket.folder / "ticket.safetensors")
    assert not found.weights, "a mask and a fingerprint of θ₀ are enough"
    run = TicketRun(data={"task": "image"}, network={"hidden": "50,20"})
    task = task_of(run, None)
    splits = task.read(str(folder), None, Silent())
    torch.manual_seed(4)
    model = task.settled(splits).new_network(splits.processor)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    mask = found.apply(model)
    for name, live in mask.live.items():
        assert torch.equal(dict(model.named_parameters())[name], before[name] * live), name
    trained = weights(ticket.folder / "model")
    assert all(not trained[name][~live].any() for name, live in mask.live.items()), "what is pruned stays 0"


@pytest.mark.parametrize("control", ["none", "reinit", "permuted"])
def test_a_network_trains_from_a_ticket_and_its_controls(folder, ticket, tmp_path, control):
    how = {"ticket": str(ticket.folder / "ticket.safetensors"), "control": control, "network": {"hidden": "50,20"}}
    found = train(folder, tmp_path, seed=4, **how, train={**TRAIN, "keep": "last", "patience": 0})
    mask = Ticket.load(ticket.folder / "ticket.safetensors").mask
    kept = weights(found.folder / "model")
    assert {name: int((kept[name] != 0).sum()) for name in mask.live} == {
        name: int(live.sum()) for name, live in mask.live.items()
    }
    assert same(kept, weights(ticket.folder / "model")) == (control == "none"), "the same start, mask and order"


def test_a_ticket_of_another_seed_is_refused(folder, ticket, tmp_path):
    with pytest.raises(MismatchError, match="belongs to other weights"):
        train(folder, tmp_path, ticket=str(ticket.folder / "ticket.safetensors"), network={"hidden": "50,20"}, seed=5)


def test_what_images_cannot_do_is_refused_before_training(folder, teacher, tmp_path):
    how = {**KNOBS, "network": STUDENT}
    with pytest.raises(KnobError, match=r"student\.layers.*no effect"):
        limbeck.distill(teacher, folder, out=tmp_path / "a", layers=1, **how)
    with pytest.raises(LimbeckError, match="does not serve --task image"):
        limbeck.distill(teacher, folder, out=tmp_path / "b", recipe="pkd-skip", **how)
    with pytest.raises(LimbeckError, match="does not serve --task image"):
        limbeck.distill(teacher, folder, out=tmp_path / "c", export="onnx", **how)
    with pytest.raises(MismatchError, match="would answer shifted images"):
        limbeck.distill(teacher, folder, out=tmp_path / "d", image={"jitter": 1}, teacher_cache={"live": True}, **how)
    with pytest.raises(KnobError, match=r"image\.jitter.*no effect for --task classify"):
        Run(image={"jitter": 1}).spelled_out("classify")
    with pytest.raises(LimbeckError, match="not exported to ONNX"):
        limbeck.export(teacher, "onnx", out=tmp_path / "e")


def test_other_images_than_the_model_reads_are_refused(teacher, tmp_path):
    draw = np.random.default_rng(0)
    other = draw.integers(0, 256, (60, 9, 9)).astype(np.uint8), draw.integers(0, 4, 60)
    with pytest.raises(MismatchError, match="9 × 9 pixels, but the model reads 8 × 8"):
        limbeck.evaluate(teacher, {"test": other, "train": other})
    five = draw.integers(0, 256, (60, 8, 8)).astype(np.uint8), np.arange(60) % 5
    with pytest.raises(MismatchError, match="does not know the label 4"):
        limbeck.evaluate(teacher, {"test": five, "train": five})


def test_labels_are_put_into_the_teachers_order(folder, tmp_path):
    """A teacher that knows the classes by other names, in another order."""
    named = read_images(limbeck.data.settings.DataSettings(train=str(folder), classes="a,b,c,d"))
    assert named.task.labels == ("a", "b", "c", "d")
    one = train(folder, tmp_path / "one", reading={"classes": "a,b,c,d"})
    found = limbeck.evaluate(one.folder, folder, reading={"classes": "a,b,c,d"})
    swapped = limbeck.evaluate(one.folder, folder, reading={"classes": "d,c,b,a"})
    assert found.arms[0].runs[0].quality["accuracy"] == one.record.arms[0].runs[0].quality["accuracy"]
    assert swapped.arms[0].runs[0].quality["accuracy"] < 0.5
