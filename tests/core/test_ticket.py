"""Tickets: mask and start in one file, for the model and the weights they belong to; and the controls."""

import pytest
import torch
from torch import nn

from limbeck.core.compress import Mask, in_head, prunable
from limbeck.core.errors import DataError, MismatchError
from limbeck.core.ticket import Ticket
from limbeck.passes.magnitude import Magnitude
from limbeck.passes.ticket import UseTicket
from tiny import make_classifier

HALF = Magnitude(fraction=0.5, scope="global", head=0.0)


def weights(model):
    return {name: weight.detach().clone() for name, weight in prunable(model).items()}


@pytest.fixture
def found():
    """A model at its start, and the ticket of what is left when half of another one's weights go."""
    model, trained = make_classifier(seed=1), make_classifier(seed=2)
    mask = HALF.apply(trained, Mask()).mask
    start = weights(model)
    return model, Ticket.of(mask, start, start, {"round": 1})


def test_rewound_to_the_start_it_sets_exactly_the_survivors(found):
    model, ticket = found
    before = weights(model)
    mask = ticket.apply(model)
    assert mask == ticket.mask
    assert not ticket.weights  # they are the model's own
    for name, weight in weights(model).items():
        live = mask.live.get(name, torch.ones_like(weight, dtype=torch.bool))
        assert torch.equal(weight, before[name] * live), "bit for bit"
    assert ticket.sparsity == pytest.approx(0.5, abs=1e-3)
    assert not in_head(model) & mask.live.keys()


def test_rewound_to_a_later_step_it_brings_the_weights_of_that_step(found):
    model, ticket = found
    later = {name: weight + 1 for name, weight in weights(model).items()}
    ticket = Ticket.of(ticket.mask, weights(model), later, {})
    ticket.apply(model)
    for name, live in ticket.mask.live.items():
        assert torch.equal(weights(model)[name], later[name] * live)


@pytest.mark.parametrize("later", [False, True])
def test_a_file_holds_all_of_it_in_an_eighth_of_a_byte_per_weight(found, later, tmp_path):
    model, ticket = found
    if later:
        ticket = Ticket.of(ticket.mask, weights(model), {n: w + 1 for n, w in weights(model).items()}, ticket.facts)
    ticket.save(tmp_path / "ticket.safetensors")
    again = Ticket.load(tmp_path / "ticket.safetensors")
    assert again.mask.checksum == ticket.mask.checksum
    assert (again.start, again.facts) == (ticket.start, ticket.facts)
    assert again.weights.keys() == ticket.weights.keys()
    assert all(torch.equal(again.weights[name], ticket.weights[name]) for name in ticket.weights)
    if not later:
        assert (tmp_path / "ticket.safetensors").stat().st_size < ticket.mask.total / 8 + 10_000


@pytest.mark.parametrize("control", ["reinit", "permuted", "random", "shuffled"])
def test_controls_change_what_they_say_and_nothing_else(found, control):
    model, ticket = found
    start = weights(model)
    mask = ticket.apply(model, control, seed=7)
    per_layer = {name: int(live.sum()) for name, live in mask.live.items()}
    own = {name: int(live.sum()) for name, live in ticket.mask.live.items()}
    assert mask.remaining == ticket.mask.remaining
    assert (mask.checksum == ticket.mask.checksum) == (control in ("reinit", "shuffled"))
    assert (per_layer == own) == (control != "random")
    after = weights(model)
    for name, live in mask.live.items():
        assert not after[name][~live].any()
        assert torch.equal(after[name][live], start[name][live]) == (control in ("permuted", "random"))
    if control == "shuffled":
        name = next(iter(mask.live))
        assert set(after[name][mask.live[name]].tolist()) <= set(start[name].flatten().tolist())
    other = make_classifier(seed=1)
    assert ticket.apply(other, control, seed=7).checksum == mask.checksum, "a seed draws the same"
    assert all(torch.equal(weight, after[name]) for name, weight in weights(other).items())


def test_a_model_drawn_anew_is_not_the_start_that_the_same_seed_drew():
    torch.manual_seed(3)
    model = make_classifier(seed=3)
    start = weights(model)
    ticket = Ticket.of(HALF.apply(make_classifier(seed=4), Mask()).mask, start, start, {})
    ticket.apply(model, "reinit", seed=3)
    name = next(iter(ticket.mask.live))
    live = ticket.mask.live[name]
    assert not torch.equal(weights(model)[name][live], start[name][live])


def test_another_model_and_other_weights_are_refused(found):
    _, ticket = found
    with pytest.raises(MismatchError, match="belongs to other weights") as caught:
        ticket.apply(make_classifier(seed=9))
    assert "the same seed" in caught.value.remedy
    with pytest.raises(MismatchError, match="made for another model"):
        ticket.apply(make_classifier(seed=1, hidden=64))
    with pytest.raises(MismatchError, match="made for another model"):
        ticket.apply(nn.Linear(2, 2))


def test_a_damaged_file_and_one_that_is_no_ticket_are_refused(found, tmp_path):
    _, ticket = found
    file = tmp_path / "ticket.safetensors"
    ticket.save(file)
    whole = file.read_bytes()
    file.write_bytes(whole[:-200])
    with pytest.raises(DataError, match="damaged or no ticket"):
        Ticket.load(file)
    file.write_bytes(whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])
    with pytest.raises(DataError, match="checksum differs"):
        Ticket.load(file)
    ticket.mask.save(file)
    with pytest.raises(DataError, match="is no ticket"):
        Ticket.load(file)
    with pytest.raises(DataError, match="there is no ticket"):
        Ticket.load(tmp_path / "none")


def test_the_pass_says_what_lives_and_takes_its_seed_from_the_run(found, tmp_path):
    _, ticket = found
    ticket.save(tmp_path / "ticket.safetensors")
    masks = []
    for seed in (1, 2, 1):
        model = make_classifier(seed=1)
        torch.manual_seed(seed)
        change = UseTicket(file=str(tmp_path / "ticket.safetensors"), control="permuted").apply(model, Mask())
        masks.append(change.mask.checksum)
    assert masks[0] == masks[2] != masks[1]
    assert "(50.0 %). Control: permuted." in change.note


def test_drawn_anew_the_head_stays_the_one_that_the_task_began_with(found):
    model, ticket = found
    with torch.no_grad():
        model.classifier.bias.fill_(2.5)  # as a regression's starts at the mean of its labels
    head = model.classifier.weight.detach().clone()
    ticket.apply(model, "reinit", seed=7)
    assert torch.equal(model.classifier.weight, head)
    assert (model.classifier.bias == 2.5).all()


def test_a_ticket_serves_other_heads_and_is_completed_where_they_read_more_layers(found):
    """A masked LM has no pooler: the mask of a classifier takes those weights in, and as many go in all."""
    model, ticket = found
    pooled = next(name for name in ticket.mask.live if "pooler" in name)
    start = weights(model)
    live = {name: one for name, one in ticket.mask.live.items() if name != pooled}
    small = Ticket.of(Mask(live), start, start, {"round": 1})
    whole = small.completed(model)
    assert whole.mask.total == ticket.mask.total
    assert whole.mask.total - whole.mask.remaining == round(small.sparsity * ticket.mask.total)
    kept, gone = (start[pooled].abs()[of] for of in (whole.mask.live[pooled], ~whole.mask.live[pooled]))
    assert gone.max() <= kept.min(), "the smallest go"
    assert all(torch.equal(whole.mask.live[name], one) for name, one in live.items())
    assert whole.facts["completed"] == [pooled]
    assert ticket.completed(model) is ticket, "nothing is missing"
    other = make_classifier(seed=1, labels=tuple("abcde"))
    for name, weight in start.items():
        if name in ticket.mask.live:
            dict(other.named_parameters())[name].data.copy_(weight)
    assert whole.apply(other).remaining == whole.mask.remaining
