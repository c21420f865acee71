"""What every verb has: the data, and the tables of its task."""

from __future__ import annotations

from limbeck.core.knob import Knobs, knob
from limbeck.core.plugins import HELP, Plugins
from limbeck.data.settings import DataSettings


class TaskKnobs(Knobs):
    data: DataSettings = knob(DataSettings(), "the data")
    trust_remote_code: bool = knob(False, "run Python code that comes with a model; only for code you have read")
    plugin: Plugins = knob("", HELP, short="--plugin")
