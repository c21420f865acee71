"""Tickets of pre-trained encoders: which weights of one encoder learn a task, and whose ticket serves another task.

    searches    train, prune 10 % of all weights, rewind: for every source, three seeds of every target
    transfer    TRANSFER(S, T): a target learnt from the ticket of a source, with a new head, at one sparsity
    controls    the same sparsity with a random mask, re-initialised, and with shuffled weights

Sources are the targets, SST-2 with less and more rows, masked LM (its head learns first, with the encoder frozen, so
that all tickets start from the same weights) and the pre-trained weights' own magnitudes. The cell of a task's own
ticket is a round of its search: a training from that ticket would be the same, step by step. Without --model the
encoder is MiniLM-L6, where the paper has BERT-base; it was tuned contrastively, so the weights that masked LM needs may
be others than those it was left with. Every round's learning rate falls to 0.
"""

from __future__ import annotations

from limbeck.experiments.bert_tickets_data import GLUE
from limbeck.experiments.bert_tickets_plan import QUICK, Grid, plan_of
from limbeck.experiments.bert_tickets_record import record_of
from limbeck.experiments.experiment import Experiment, experiment
from limbeck.passes.ticket import CHEN_2020

BERT_TICKETS = experiment(
    Experiment(
        "bert-tickets",
        "Lottery tickets of a pre-trained encoder, and their transfer between tasks",
        CHEN_2020,
        "much of a pre-trained encoder can go before fine-tuning; which part, masked LM knows for every task",
        GLUE,
        cost="about 14 hours",
        quick_cost="about 3 minutes",
        parts=lambda conditions: plan_of(conditions).parts(),
        conclude=lambda conditions: record_of(plan_of(conditions)),
        options={"model": ""},
        knobs=Grid,
        quick_knobs=QUICK,
        partial=True,
    )
)
