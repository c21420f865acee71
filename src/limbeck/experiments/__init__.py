"""Papers' experiments, one file each, made of ordinary jobs; found by discovery, so that a new one edits no list."""

from __future__ import annotations

from limbeck.core.card import discover
from limbeck.experiments.experiment import EXPERIMENTS, Experiment, find

__all__ = ["EXPERIMENTS", "Experiment", "find"]

discover(__name__)
