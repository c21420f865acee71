"""Masks: which weights live, counted exactly, kept whole on disk, and only for the model they are of."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from limbeck.core.compress import Mask, prunable
from limbeck.core.errors import MismatchError
from tiny import make_classifier
from tiny_language import make_masked


class Net(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(5, width)
        self.layer, self.norm, self.out = nn.Linear(width, 4), nn.LayerNorm(4), nn.Linear(4, 2)


def masked(**live):
    return Mask({f"{name}.weight": torch.tensor(rows, dtype=torch.bool) for name, rows in live.items()})


LAYER = [[1, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]]


def test_linear_and_convolution_weights_are_prunable_and_nothing_else():
    assert list(prunable(Net())) == ["layer.weight", "out.weight"]
    assert list(prunable(nn.Sequential(nn.Conv1d(2, 2, 3), nn.BatchNorm1d(2), nn.Conv2d(1, 1, 2)))) == [
        "0.weight",
        "2.weight",
    ]
    names = prunable(make_classifier(layers=1))
    assert len(names) == 6 + 1 + 1  # of the layer, the pooler, the head
    assert not [name for name in names if "embedding" in name or "LayerNorm" in name]


def test_a_head_tied_to_the_table_of_tokens_stays_whole():
    model = make_masked(layers=1)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert not [name for name, weight in prunable(model).items() if weight is model.get_input_embeddings().weight]
    assert all(name in dict(model.named_parameters()) for name in prunable(model))


def test_counts_are_exact():
    full = Mask.full(Net())
    assert (full.remaining, full.total) == (20, 20)
    assert {name: tuple(mask.shape) for name, mask in full.live.items()} == {
        "layer.weight": (4, 3),
        "out.weight": (2, 4),
    }
    some = masked(layer=LAYER)
    assert (some.remaining, some.total) == (7, 12)
    assert (Mask().remaining, Mask().total) == (0, 0)


def test_a_mask_only_ever_shrinks():
    one, other = masked(layer=LAYER), masked(layer=[[1, 1, 1], [0, 1, 1], [1, 1, 1], [1, 1, 1]], out=[[1, 0, 1, 1]] * 2)
    both = one & other
    assert both.live["layer.weight"].tolist() == [
        [True, False, True],
        [False, True, True],
        [False] * 3,
        [True, True, False],
    ]
    assert torch.equal(both.live["out.weight"], other.live["out.weight"])  # a parameter that one does not name is whole
    assert both.remaining == 6 + 6
    assert (other & one).checksum == both.checksum
    assert (both & Mask()).checksum == both.checksum == (both & both).checksum
    for each in (one, other):
        assert not any((both.live[name] & ~mask).any() for name, mask in each.live.items())


def test_what_does_not_live_is_exactly_0_and_the_rest_untouched():
    model, mask = Net(), masked(layer=LAYER)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    mask.hold(model)
    for name, tensor in model.state_dict().items():
        if name == "layer.weight":
            live = mask.live[name]
            assert (tensor[~live] == 0).all()
            assert torch.equal(tensor[live], before[name][live])
        else:
            assert torch.equal(tensor, before[name])


def test_a_mask_read_back_is_the_same(tmp_path):
    mask = masked(layer=LAYER, out=[[0, 1, 1, 1], [1, 1, 1, 1]])
    mask.save(tmp_path / "mask.safetensors")
    again = Mask.load(tmp_path / "mask.safetensors")
    assert again.live.keys() == mask.live.keys()
    assert all(torch.equal(again.live[name], live) for name, live in mask.live.items())
    assert again.checksum == mask.checksum
    assert [path.name for path in tmp_path.iterdir()] == ["mask.safetensors"]


def test_a_checksum_names_names_shapes_and_places():
    masks = [
        masked(layer=LAYER),
        masked(other=LAYER),
        masked(layer=[[1, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 0]]),
        masked(layer=LAYER[::-1]),
        Mask(),
    ]
    assert len({mask.checksum for mask in masks}) == len(masks)


def test_a_damaged_mask_is_refused(tmp_path):
    file = tmp_path / "mask.safetensors"
    masked(layer=LAYER).save(file)
    file.write_bytes(file.read_bytes()[:-1] + b"\1")  # one weight more
    with pytest.raises(MismatchError, match=r"is damaged: its checksum differs\n.*again"):
        Mask.load(file)
    save_file(load_file(file), file)  # of another program, without a checksum
    with pytest.raises(MismatchError, match="is damaged"):
        Mask.load(file)


@pytest.mark.parametrize(
    ("model", "mask"),
    [
        (Net(), masked(other=LAYER)),
        (Net(width=2), masked(layer=LAYER)),
        (Net(), masked(layer=[[1, 0, 1]])),  # would spread over all rows
    ],
    ids=["name", "shape", "broadcast"],
)
def test_a_mask_of_another_model_is_refused_and_nothing_changed(model, mask):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    whole = Mask({**Mask.full(model).live, **{name: torch.zeros_like(live) for name, live in mask.live.items()}})
    with pytest.raises(MismatchError, match=r"which the model does not have\n.*made for"):
        whole.hold(model)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_gpt2s_linear_layers_are_prunable():
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=16, n_positions=8))
    names = list(prunable(model))  # the head is the word table
    assert [name.removeprefix("transformer.h.0.") for name in names] == [
        "attn.c_attn.weight",
        "attn.c_proj.weight",
        "mlp.c_fc.weight",
        "mlp.c_proj.weight",
    ]
