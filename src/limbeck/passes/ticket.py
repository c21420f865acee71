"""A winning ticket, used: the weights that it names live and start where it says, all others are 0.

A ticket is found by `limbeck tickets` on one task and tried on another: TRANSFER(S, T) is the score on task T of a
model that starts from the ticket of task S, with a new head. What makes it win is asked by controls: `reinit` draws all
weights anew, `permuted` shuffles the mask within each layer, `random` over all layers, `shuffled` the weights.

Example:

    import limbeck

    limbeck.UseTicket(file="runs/sst2/ticket.safetensors", control="permuted")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from limbeck.core.card import Paper
from limbeck.core.compress import NO_CALIBRATION, Calibration, Change, Mask, Pass, compression
from limbeck.core.errors import KnobError
from limbeck.core.knob import knob
from limbeck.core.ticket import Control, Ticket

if TYPE_CHECKING:
    from torch import nn

CHEN_2020 = Paper(
    "The Lottery Ticket Hypothesis for Pre-trained BERT Networks",
    "Tianlong Chen, Jonathan Frankle, Shiyu Chang, Sijia Liu, Yang Zhang, Zhangyang Wang, Michael Carbin",
    2020,
    "NeurIPS 2020, arXiv:2007.12223",
    "chen2020lottery",
    "https://arxiv.org/abs/2007.12223",
)


@compression("ticket", CHEN_2020)
class UseTicket(Pass):
    """Starts a model from a winning ticket, or from a control of one."""

    file: str = knob("", "the ticket, as `limbeck tickets` wrote it")
    control: Control = knob(
        "none", "reinit: weights drawn anew; permuted, random: another mask of as many; shuffled: weights shuffled"
    )

    def apply(self, model: nn.Module, mask: Mask, calibration: Calibration = NO_CALIBRATION) -> Change:
        import torch

        if not self.file:
            raise KnobError("the pass 'ticket' has no ticket", "name a file with --ticket.file")
        ticket = Ticket.load(self.file)
        held = ticket.apply(model, self.control, seed=torch.initial_seed())
        share = 100 * held.remaining / held.total
        how = "" if self.control == "none" else f" Control: {self.control}."
        return Change(held, f"{held.remaining:,} of {held.total:,} masked weights live ({share:.1f} %).{how}")
