"""The verbs, in the order a person meets them. Only the one that was chosen is loaded."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from limbeck import __version__
from limbeck.core.errors import KnobError
from limbeck.core.plugins import load_plugins

VERBS = {
    "distill": "Make a smaller student of a teacher, and measure what was kept.",
    "compare": "Set recipes side by side: one teacher, one data set, several seeds, one table.",
    "train": "Fine-tune an encoder on labels, or a language model on text, to have a teacher.",
    "compress": "Make a model smaller by passes, one after another, and measure what each bought and cost.",
    "tickets": "Find which weights of a model suffice: train, prune, rewind, round after round.",
    "reproduce": "Run a paper's experiment again, its published figures beside yours; or list them.",
    "cache": "Run a language model once and cache the top of its distributions, for students to learn from.",
    "export": "Write a model for ONNX Runtime or CTranslate2, small and fast, compared with its source.",
    "predict": "Answer new texts with a model: one text, a file, or standard input.",
    "eval": "Measure a model on labelled texts: quality, calibration, agreement.",
    "bench": "Measure latency, throughput, memory and size of saved models.",
    "report": "Put runs side by side on one self-contained page.",
    "methods": "List recipes, objectives and passes, or explain one.",
    "demo": "A few labels, many texts, one small fast file; on Rotten Tomatoes, in minutes.",
}
UsageError: Any = typer.BadParameter.__base__  # click's own, which typer may hold a copy of
_FILES = {"eval": "evaluate"}  # where the verb's name is taken in Python


def app(arguments: Sequence[str]) -> typer.Typer:
    """The command line for these arguments: the chosen verb whole, the others by name, so that help comes at once."""
    cli = typer.Typer(
        cls=Verbs,
        help="Make a big transformer small, and prove what was kept.",
        epilog="Start with `limbeck demo`, or: limbeck distill --teacher DIR --data reviews.csv --out runs/small",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # its tables cut the names of options
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    )
    chosen = next((word for word in arguments if not word.startswith("-")), "")
    if chosen in VERBS:
        load_plugins(_named(arguments, "--plugin", "plugin"))
    for verb, summary in VERBS.items():
        cli.command(verb, short_help=summary, cls=Verb)(_load(verb) if verb == chosen else _not_loaded)
    return cli


class Verbs(TyperGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--version" in args:
            typer.echo(f"limbeck {__version__}")
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))
        with formatter.section("Options"):
            formatter.write_dl([("VERB --help", "the options of a verb"), ("--version", "the version, and stop")])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except UsageError:
            close = difflib.get_close_matches(args[0], VERBS, n=1)
            hint = f"did you mean `limbeck {close[0]}`? " if close else ""
            raise KnobError(f"there is no verb '{args[0]}'", f"{hint}There are {', '.join(VERBS)}") from None


class Verb(TyperCommand):
    """Explains itself in `--help` and `--help-all`, and refuses a wrong flag with the right one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["task"] = _named(args, "--task", "task", table="data")
        ctx.meta["whole"] = "--help-all" in args
        if ctx.meta["whole"]:
            typer.echo(ctx.get_help())
            ctx.exit()
        named = {word.split("=", 1)[0] for word in args if word.startswith("-")}
        flags = {flag for param in self.params for flag in (*param.opts, *param.secondary_opts)}
        if named <= flags:  # typer builds a parser for each option, whether it is named or not
            self.params = [param for param in self.params if not _is_absent(param, named)]
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            raise KnobError(*_refusal(error, self.name or "")) from None

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        from limbeck.cli.help import write_text

        write_text(formatter, self.help or "")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        from limbeck.cli.help import write_options

        write_options(formatter, self.name or "", self.get_params(ctx), ctx.meta["task"], ctx.meta["whole"])


def _is_absent(param: Any, named: set[str]) -> bool:
    """Whether an option is a knob that the command line does not name."""
    return bool(getattr(param, "rich_help_panel", None)) and named.isdisjoint((*param.opts, *param.secondary_opts))


def _refusal(error: Any, verb: str) -> tuple[str, str]:
    """Problem and remedy of a command line that cannot be parsed."""
    flag = str(getattr(error, "option_name", None) or "")
    if type(error).__name__ != "NoSuchOption":
        return error.format_message().rstrip("."), f"see `limbeck {verb} --help`"
    from limbeck.core.knob import RENAMED

    *tables, last = flag.removeprefix("--").split(".")
    new = ".".join([*(RENAMED.get(name, name).replace("_", "-") for name in tables), last])
    if new != flag.removeprefix("--"):
        return f"there is no option {flag}", f"it is called --{new} now"
    close = f"did you mean {' or '.join(sorted(error.possibilities))}? " if error.possibilities else ""
    return f"there is no option {flag}", f"{close}`limbeck {verb} --help` shows the usual ones, --help-all all"


def _load(verb: str) -> Callable[..., None]:
    name = _FILES.get(verb, verb)
    run: Callable[..., None] = getattr(import_module(f"limbeck.cli.{name}"), name)
    return run


def _not_loaded() -> None:
    raise AssertionError("only the chosen verb runs")


def _named(arguments: Sequence[str], flag: str, key: str, table: str = "") -> str:
    """What a flag names, else the run file: read before there are flags, or before they are parsed."""
    for word, after in pairwise([*arguments, ""]):
        if word.split("=", 1)[0] == flag:
            return word.partition("=")[2] or after
    for path in (Path(word) for word in arguments if word.endswith(".toml")):
        with suppress(OSError, ValueError, AttributeError):  # the verb says what is wrong with the file
            found = tomllib.loads(path.read_text(encoding="utf-8"))
            return str((found.get(table, {}) if table else found).get(key, ""))
    return ""
