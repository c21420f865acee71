"""What a row costs."""

import torch

from limbeck.jobs.plan import active_parameters
from limbeck.students.load import load
from untaught import SHAPE, make_teacher


def test_rows_pass_through_a_table_of_tokens_only_to_be_scored(tmp_path):
    """A translator has one table of tokens under four names; counted as four, a small one would cost less than none."""
    network, _ = load(make_teacher(tmp_path, ["a dog", "ein hund"]), "translate")
    places = 2 * SHAPE["positions"] * SHAPE["hidden"]
    assert active_parameters(network) == network.num_parameters() - places
    network.lm_head.weight = torch.nn.Parameter(network.lm_head.weight.detach().clone())
    words = network.model.shared.weight.numel()
    assert active_parameters(network) == network.num_parameters() - words - places
