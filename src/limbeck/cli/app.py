"""The verbs, in the order a person meets them. Only the one that was chosen is loaded."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from limbeck.core.errors import KnobError
from limbeck.core.plugins import load_plugins

VERBS = {
    "distill": "Make a smaller student of a teacher, and measure what was kept.",
    "compare": "Set recipes side by side: one teacher, one data set, several seeds, one table.",
    "train": "Fine-tune an encoder on labels, or a language model on text, to have a teacher.",
    "cache": "Run a language model once and cache the top of its distributions, for students to learn from.",
    "predict": "Answer new texts with a model: one text, a file, or standard input.",
    "eval": "Measure a model on labelled texts: quality, calibration, agreement.",
    "bench": "Measure latency, throughput, memory and size of saved models.",
    "report": "Put runs side by side on one self-contained page.",
    "methods": "List recipes and objectives, or explain one.",
    "demo": "The whole story on MiniLM and Rotten Tomatoes, in minutes.",
}
UsageError: Any = typer.BadParameter.__base__  # click's own, which typer may hold a copy of
_FILES = {"eval": "evaluate"}  # where the verb's name is taken in Python


def app(arguments: Sequence[str]) -> typer.Typer:
    """The command line for these arguments: the chosen verb whole, the others by name, so that help comes at once."""
    cli = typer.Typer(
        help="Make a big transformer small, and prove what was kept.",
        epilog="Start with `limbeck demo`, or: limbeck distill --teacher DIR --data reviews.csv --out runs/small",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    chosen = next((word for word in arguments if not word.startswith("-")), "")
    if chosen in VERBS:
        load_plugins(_plugins(arguments))
    for verb, summary in VERBS.items():
        cli.command(verb, short_help=summary, cls=Verb)(_load(verb) if verb == chosen else _not_loaded)
    return cli


class Verb(TyperCommand):
    """Refuses a flag of an old name with its new one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            from limbeck.core.knob import RENAMED

            old = str(getattr(error, "option_name", None) or "")
            *tables, last = old.removeprefix("--").split(".")
            new = ".".join([*(RENAMED.get(name, name).replace("_", "-") for name in tables), last])
            if new == old.removeprefix("--"):
                raise
            raise KnobError(f"there is no option {old}", f"it is called --{new} now") from None


def _load(verb: str) -> Callable[..., None]:
    name = _FILES.get(verb, verb)
    run: Callable[..., None] = getattr(import_module(f"limbeck.cli.{name}"), name)
    return run


def _not_loaded() -> None:
    raise AssertionError("only the chosen verb runs")


def _plugins(arguments: Sequence[str]) -> str:
    """What --plugin names, else the run file: read before there are flags, because its knobs become flags."""
    for word, after in pairwise([*arguments, ""]):
        if word.split("=", 1)[0] == "--plugin":
            return word.partition("=")[2] or after
    for path in (Path(word) for word in arguments if word.endswith(".toml")):
        with suppress(OSError, ValueError):  # the verb says what is wrong with the file
            return str(tomllib.loads(path.read_text(encoding="utf-8")).get("plugin", ""))
    return ""
