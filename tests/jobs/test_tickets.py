"""A search for a ticket as a run: every round is measured, saved and resumed; a ticket starts another training."""

import copy

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, TrainerCallback

import limbeck
from limbeck.cli.flags import _knobs
from limbeck.core.compress import Mask, prunable
from limbeck.core.errors import DataError, KnobError, MismatchError
from limbeck.core.ticket import Ticket
from limbeck.jobs.ticket_settings import TicketRun
from limbeck.passes.magnitude import Magnitude
from tiny import make_classifier, make_rows, make_tokenizer, write_csv

pytestmark = pytest.mark.slow
TRAIN = {"epochs": 1, "batch_size": 16, "learning_rate": 1e-3, "weight_decay": 0.1, "evals_per_epoch": 2}
KNOBS = {"train": TRAIN, "measure": {"speed": False, "bootstrap": 100}}


class Stop(TrainerCallback):
    """Ends a run in its training of this number, as Ctrl-C does."""

    def __init__(self, training):
        self.left = training

    def on_train_begin(self, *_, **__):
        self.left -= 1

    def on_step_end(self, args, state, *_, **__):
        if self.left < 0 and state.global_step == 2:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("tickets")
    make_classifier(layers=2, seed=5).save_pretrained(home / "model")
    make_tokenizer().save_pretrained(home / "model")
    write_csv(home / "rows.csv", make_rows(160))
    return home


def search(home, out, rounds=3, **knobs):
    return limbeck.find_ticket(home / "model", home / "rows.csv", out=out, rounds=rounds, **{**KNOBS, **knobs})


@pytest.fixture(scope="module")
def whole(home):
    return search(home, home / "out")


def test_every_round_is_tested_at_its_sparsity(home, whole):
    levels = whole.record.arms[0].runs[0].levels
    assert [round(level.share, 2) for level in levels] == [1.0, 0.9, 0.8, 0.7]
    total = sum(weight.numel() for name, weight in prunable(make_classifier(layers=2)).items() if "bert." in name)
    assert {level.total for level in levels} == {total}, "the head is not counted"
    assert levels[-1].quality == whole.record.arms[0].runs[0].quality
    assert all(level.best_step and level.steps == levels[0].steps for level in levels)
    assert [bool(level.ticket) for level in levels] == [False, True, True, True]
    masks = [Ticket.load(home / "out" / level.ticket).mask.live for level in levels[1:]]
    for small, large in zip(masks[1:], masks, strict=False):
        assert all((small[name] <= large[name]).all() for name in large), "a mask only ever shrinks"


def test_the_ticket_belongs_to_the_model_that_it_was_found_in(home, whole):
    ticket = Ticket.load(home / "out" / "ticket.safetensors")
    assert ticket.facts["round"] == 3
    model = AutoModelForSequenceClassification.from_pretrained(home / "model")
    start = {name: weight.detach().clone() for name, weight in prunable(model).items()}
    ticket.apply(model)
    for name, live in ticket.mask.live.items():
        assert torch.equal(dict(model.named_parameters())[name], start[name] * live)
    kept = load_file(home / "out" / "model" / "model.safetensors")
    for name, live in ticket.mask.live.items():
        assert not kept[name][~live].any(), "no optimiser, weight decay or momentum revives a weight"


def test_training_from_the_last_ticket_is_the_last_round(home, whole, tmp_path):
    """The same start, the same rows in the same order, the same mask: the same weights."""
    knobs = {**KNOBS, "train": {**TRAIN, "keep": "last", "patience": 0}}
    limbeck.train(
        home / "model", home / "rows.csv", ticket=str(home / "out" / "ticket.safetensors"), out=tmp_path, **knobs
    )
    ours, theirs = (load_file(place / "model" / "model.safetensors") for place in (tmp_path, home / "out"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_stopped_in_a_later_round_it_ends_with_the_same_weights_and_tickets(home, whole, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        search(home, tmp_path, callbacks=[Stop(2)])
    begun = tmp_path / "arms" / "model-seed0" / "tickets"
    assert len(list(begun.iterdir())) == 2
    found = search(home, tmp_path, resume=True)
    ours, theirs = (load_file(place / "model" / "model.safetensors") for place in (tmp_path, home / "out"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert found.record.arms[0].runs[0].levels == whole.record.arms[0].runs[0].levels
    for number in (1, 2, 3):
        files = [
            place / f"arms/model-seed0/tickets/round-{number:02d}.safetensors" for place in (tmp_path, home / "out")
        ]
        ours, theirs = map(Ticket.load, files)
        assert (ours.mask.checksum, ours.start, ours.facts) == (theirs.mask.checksum, theirs.start, theirs.facts)


def test_rewound_to_a_later_step_the_ticket_brings_its_weights(home, tmp_path):
    found = search(home, tmp_path / "out", rounds=1, rewind_to=0.5)
    ticket = Ticket.load(tmp_path / "out" / "ticket.safetensors")
    assert ticket.weights.keys() == ticket.mask.live.keys()
    trained = limbeck.train(
        home / "model",
        home / "rows.csv",
        ticket=str(tmp_path / "out" / "ticket.safetensors"),
        out=tmp_path / "t",
        **KNOBS,
    )
    assert Mask.of(trained.student).remaining <= found.record.arms[0].runs[0].levels[-1].remaining + 64  # the head


def test_without_rewinding_only_the_learning_rate_begins_anew(home, tmp_path):
    whole = search(home, tmp_path / "a", rounds=1)
    tuned = search(home, tmp_path / "b", rounds=1, rewind="rate")
    dense = [run.record.arms[0].runs[0].levels[0] for run in (whole, tuned)]
    assert dense[0] == dense[1]
    ours, theirs = (load_file(run.folder / "model" / "model.safetensors") for run in (whole, tuned))
    assert any(not torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_sparse_folder_keeps_its_zeros_and_that_is_said(home, whole, tmp_path):
    found = limbeck.train(home / "out" / "model", home / "rows.csv", out=tmp_path / "a", **KNOBS)
    before, after = (
        Mask.of(AutoModelForSequenceClassification.from_pretrained(place))
        for place in (home / "out" / "model", tmp_path / "a" / "model")
    )
    assert after.remaining <= before.remaining < before.total
    assert any("are 0 and stay 0" in note for note in found.record.notes)
    knobs = copy.deepcopy(KNOBS)
    knobs["train"]["hold_zeros"] = False
    free = limbeck.train(home / "out" / "model", home / "rows.csv", out=tmp_path / "b", **knobs)
    assert Mask.of(free.student).remaining > before.remaining


def test_slips_are_refused_with_a_remedy(home, whole, tmp_path):
    with pytest.raises(KnobError, match="leave nothing"):
        TicketRun(rounds=10)
    with pytest.raises(KnobError, match="none is named"):
        limbeck.train(home / "model", home / "rows.csv", control="reinit", **KNOBS)
    with pytest.raises(DataError, match="there is no ticket"):
        limbeck.train(home / "model", home / "rows.csv", ticket="nowhere", **KNOBS)
    ticket = str(home / "out" / "ticket.safetensors")
    with pytest.raises(MismatchError, match="belongs to other weights"):
        limbeck.train(home / "out" / "model", home / "rows.csv", ticket=ticket, out=tmp_path / "c", **KNOBS)
    assert not (tmp_path / "c" / "model").exists()
    make_classifier(layers=1).save_pretrained(home / "shallow")
    make_tokenizer().save_pretrained(home / "shallow")
    with pytest.raises(MismatchError, match="made for another model"):
        limbeck.train(home / "shallow", home / "rows.csv", ticket=ticket, out=tmp_path / "d", **KNOBS)
    assert not (tmp_path / "d" / "arms").exists(), "before a model is built"
    with pytest.raises(KnobError, match="never taken back"):
        TicketRun(prune="start", rewind="rate")
    for fraction in (-0.1, 1.0, 1.5):
        with pytest.raises(KnobError, match=r"magnitude\.fraction"):
            TicketRun(magnitude={"fraction": fraction})


def test_what_nobody_says_of_pruning_is_as_for_encoders():
    run = TicketRun(magnitude={"scope": "layer"})
    assert (run.magnitude.fraction, run.magnitude.part_of, run.magnitude.head) == (0.1, "all", 0.0)
    assert (run.train.keep, run.train.patience) == ("last", 0)
    assert TicketRun(train={"epochs": 5}).train.keep == "last"


def test_the_head_is_rewound_too_and_that_is_said(whole):
    assert any("head is rewound too" in note for note in whole.record.notes)
    assert any("learning rate rises and falls to 0" in note for note in whole.record.notes)


@pytest.mark.parametrize("labels", [("a", "b", "c"), ()], ids=["three classes", "a number"])
def test_a_ticket_of_two_classes_starts_a_task_with_another_head(home, whole, tmp_path, labels):
    rows = [
        {**row, "label": labels[number % 3] if labels else number % 7 / 2} for number, row in enumerate(make_rows(160))
    ]
    write_csv(tmp_path / "other.csv", rows)
    ticket = home / "out" / "ticket.safetensors"
    found = limbeck.train(home / "model", tmp_path / "other.csv", ticket=str(ticket), out=tmp_path / "out", **KNOBS)
    assert found.record.task.kind == ("classify" if labels else "regress")
    kept = load_file(tmp_path / "out" / "model" / "model.safetensors")
    assert len(kept["classifier.weight"]) == (3 if labels else 1)
    for name, live in Ticket.load(ticket).mask.live.items():
        assert not kept[name][~live].any()


def test_pruned_by_its_start_a_model_keeps_the_largest_weights_it_began_with(home, tmp_path):
    """Each training is one step: what it changes must not matter."""
    knobs = {**KNOBS, "train": {**TRAIN, "max_steps": 1}}
    found = search(home, tmp_path, rounds=3, prune="start", **knobs)
    assert [round(level.share, 2) for level in found.record.arms[0].runs[0].levels] == [1.0, 0.9, 0.8, 0.7]
    ticket = Ticket.load(tmp_path / "ticket.safetensors")
    model = AutoModelForSequenceClassification.from_pretrained(home / "model")
    at_once = Magnitude(fraction=0.3, scope="global", part_of="all", head=0.0).apply(model, Mask()).mask
    assert ticket.mask.checksum == at_once.checksum
    assert not ticket.weights


def test_a_masked_lm_learns_its_head_first_and_its_ticket_starts_a_classifier(tmp_path):
    """The encoder was saved without a masked-LM head; all tickets of it have one start."""
    make_classifier(layers=2, seed=5).base_model.save_pretrained(tmp_path / "model")
    make_tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "text.txt").write_text("\n".join(row["text"] for row in make_rows(200)), encoding="utf-8")
    write_csv(tmp_path / "rows.csv", make_rows(160))
    knobs = {**KNOBS, "blocks": {"length": 16}}
    found = limbeck.find_ticket(
        tmp_path / "model",
        tmp_path / "text.txt",
        task="mask-fill",
        rounds=1,
        head_epochs=1,
        out=tmp_path / "out",
        **knobs,
    )
    assert found.record.steps["model"][0].startswith("train the head alone")
    ticket = Ticket.load(tmp_path / "out" / "ticket.safetensors")
    assert not ticket.weights, "the head learnt, the encoder stayed to the bit"
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    assert not any("pooler" in name for name in ticket.mask.live)
    whole = ticket.completed(model)
    assert sum("pooler" in name for name in whole.mask.live) == 1
    whole.save(tmp_path / "whole.safetensors")
    trained = limbeck.train(
        tmp_path / "model",
        tmp_path / "rows.csv",
        ticket=str(tmp_path / "whole.safetensors"),
        out=tmp_path / "t",
        **KNOBS,
    )
    assert Mask.of(trained.student).remaining <= whole.mask.remaining + 64  # the head


def test_the_head_that_learns_first_is_what_every_round_goes_back_to(home, tmp_path):
    """Its first round differs from one without: the head starts elsewhere."""
    runs = [search(home, tmp_path / str(epochs), rounds=1, head_epochs=epochs) for epochs in (0, 2)]
    levels = [run.record.arms[0].runs[0].levels for run in runs]
    masks = [Ticket.load(tmp_path / str(epochs) / "ticket.safetensors") for epochs in (0, 2)]
    assert masks[0].start == masks[1].start
    assert masks[0].mask.checksum != masks[1].mask.checksum
    assert [level.steps for level in levels[0]] == [level.steps for level in levels[1]]


def test_the_help_tells_the_defaults_that_tickets_have():
    fields = {dotted: field.default for dotted, field, _ in _knobs(TicketRun, ())}
    run = TicketRun()
    for table in ("magnitude", "train", "measure", "data"):
        for name, value in getattr(run, table).model_dump().items():
            assert fields[f"{table}.{name}"] == value, f"{table}.{name}"
    assert fields["magnitude.fraction"] == 0.1


def test_in_one_shot_all_is_judged_by_the_first_training(home, whole, tmp_path):
    found = search(home, tmp_path / "out", one_shot="1,3").record.arms[0].runs[0].levels
    theirs = whole.record.arms[0].runs[0].levels
    assert [level.remaining for level in found] == [theirs[0].remaining, theirs[1].remaining, theirs[3].remaining]
    assert found[0] == theirs[0]
    once, _ = (Ticket.load(tmp_path / "out" / level.ticket).mask for level in found[1:])
    assert once.checksum == Ticket.load(home / "out" / theirs[1].ticket).mask.checksum, "the first round is one shot"
    dense = limbeck.train(
        home / "model",
        home / "rows.csv",
        out=tmp_path / "d",
        **{**KNOBS, "train": {**TRAIN, "keep": "last", "patience": 0}},
    )
    prune = TicketRun(model="m").magnitude
    mask = Mask()
    for _ in range(3):
        mask = prune.apply(dense.student, mask).mask
    assert mask.checksum == Ticket.load(tmp_path / "out" / found[2].ticket).mask.checksum


@pytest.mark.parametrize("rounds", ["3,2", "0,1", "a", "1,,2", "2,2"])
def test_rounds_of_one_shot_rise(rounds):
    with pytest.raises(KnobError, match="one_shot"):
        TicketRun(model="m", one_shot=rounds)


def test_every_training_is_tested_at_its_lowest_loss_on_dev(home, whole, tmp_path):
    """Also one that was interrupted, as if it had not been; and testing changes no weight."""
    measure = {**KNOBS["measure"], "at_lowest_loss": True}
    unbroken = search(home, tmp_path / "a", measure=measure)
    levels = unbroken.record.arms[0].runs[0].levels
    assert [level.but(stopped=None) for level in levels] == whole.record.arms[0].runs[0].levels
    with pytest.raises(KeyboardInterrupt):
        search(home, tmp_path / "b", measure=measure, callbacks=[Stop(2)])
    resumed = search(home, tmp_path / "b", measure=measure, resume=True)
    assert resumed.record.arms[0].runs[0].levels == levels
    last = unbroken.record.arms[0].runs[0]
    assert last.stopped == levels[-1].stopped
    points = [point for point in last.curve if point.dev][-2:]
    lowest = min(points, key=lambda point: point.dev["loss"])
    assert last.stopped.loss == pytest.approx(lowest.dev["loss"])
    assert last.stopped.step == lowest.step - (points[-1].step - levels[-1].steps)


def test_dev_is_measured_every_so_many_steps(home, tmp_path):
    train = {**TRAIN, "eval_steps": 3, "max_steps": 8}
    found = limbeck.train(home / "model", home / "rows.csv", out=tmp_path, **{**KNOBS, "train": train})
    assert [point.step for point in found.record.arms[0].runs[0].curve if point.dev] == [3, 6, 8]
