"""`--help`: the options that most people use, of a verb and of a task; `--help-all`: every one. No name is ever cut."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Sequence
from typing import Any

from limbeck.core.compress import PASSES
from limbeck.core.knob import TABLES
from limbeck.data.settings import HUB_TAGS

_COLUMN = 24  # characters of the column of names, at most
_END = "Other options"  # the last section
# What most people use of each verb, by dotted name, in the order in which it is needed. A verb that is not here shows
# all it has; options that are no knobs are always shown.
_COLUMNS = "COLUMNS"  # stands for the columns of the task
_NETWORK = "NETWORK"  # stands for the shape of a new network, of a task that has one
_DATA = (_COLUMNS, "data.dev", "data.test", "data.max_length", "data.limit")
_TRAINING = (
    *("train.epochs", "train.max_steps", "train.batch_size", "train.learning_rate", "train.device"),
    "measure.metric",
)
_TEACHER = ("teacher", "data.train", "data.task", "out")
_ANSWERS = ("data.teacher_column", "student_from")
_STUDENT = ("student.layers", "student.preset", "teacher_cache.cache", _NETWORK)
COMMON: dict[str, dict[str, tuple[str, ...]]] = {
    "distill": {
        "Main options": (*_TEACHER, *_ANSWERS, "recipe", *_STUDENT),
        "Data": _DATA,
        "Training": (*_TRAINING, "seeds"),
    },
    "compare": {
        "Main options": (*_TEACHER, *_ANSWERS, "recipes", *_STUDENT),
        "Data": _DATA,
        "Training": (*_TRAINING, "seeds", "budget_minutes"),
    },
    "train": {
        "Main options": ("model", "data.train", "data.task", "ticket", "out", _NETWORK),
        "Data": _DATA,
        "Training": (*_TRAINING, "seed"),
    },
    "compress": {
        "Main options": ("data.train", "passes", "teacher", "recover", "export", "out", "data.task"),
        "Data": _DATA,
        "Training": (*_TRAINING, "seed"),
    },
    "tickets": {
        "Main options": (
            "model",
            "data.train",
            "data.task",
            "rounds",
            "magnitude.fraction",
            "magnitude.scope",
            "out",
            _NETWORK,
        ),
        "Data": _DATA,
        "Training": (*_TRAINING, "rewind", "seeds"),
    },
    "cache": {"Main options": (*_TEACHER, "top", "temperature"), "Data": (_COLUMNS, "data.limit", "batch_size")},
    "eval": {
        "Main options": ("data.train", "data.task", "teacher", "out"),
        "Data": (_COLUMNS, "data.classes", "data.max_length", "measure.metric"),
    },
    "bench": {
        "Main options": ("data.train", "data.task", "out", "beam"),
        "Data": (_COLUMNS, "data.max_length"),
        "Measuring": ("measure.repeats", "measure.rounds", "measure.threads", "measure.batch_size"),
    },
    "export": {"Main options": ("to", "out", "data.train", "data.task"), "Data": (_COLUMNS,)},
    "predict": {"Main options": ("data.train", "data.task", "out"), "Data": (_COLUMNS, "data.max_length")},
}
_TEXT = ("data.text_column", "data.pair_column", "data.label_column", "objective.labels.class_weights")
_LANGUAGE = ("data.text_column", "blocks.length", "blocks.documents")
OF_TASK = {
    "tag": ("windows.word_column", "windows.tag_column", "windows.stride"),
    "answer": ("windows.question_column", "windows.context_column", "windows.answer_column", "windows.stride"),
    "mask-fill": (*_LANGUAGE, "mask.share"),
    "generate": (*_LANGUAGE, "blocks.messages_column"),
    "image": ("image.jitter", "image.train_labels", "data.dev_rows"),
    "translate": (*("parallel.target", "parallel.source_column", "parallel.target_column", "translate.beam"),),
}


NETWORK_OF_TASK = {"image": ("network.name", "network.hidden", "network.dropout", "network.max_norm")}
_NOT_OF_TASK = {
    "image": (*_ANSWERS, "student.layers", "student.preset", "data.max_length", "data.dev"),
    **dict.fromkeys(("tag", "answer", "mask-fill", "generate", "translate"), _ANSWERS),
}


def write_text(formatter: Any, text: str) -> None:
    """A docstring: prose is wrapped, and a command stays on its line, to be copied."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        lines = paragraph.split("\n")
        commands = [line for line in lines if line.startswith("limbeck ") or "| limbeck " in line]
        formatter.write("\n")
        _write(formatter, "  ", " ".join(line for line in lines if line not in commands))
        formatter.write("".join(f"    {line}\n" for line in commands))


def _write(formatter: Any, name: str, text: str) -> None:
    """A name and what it means, in two columns. Unlike click's, no name in the text is broken at a hyphen."""
    lines = textwrap.wrap(text, formatter.width - len(name), break_on_hyphens=False, break_long_words=False)
    for line in lines:
        formatter.write(f"{name}{line}\n")
        name = " " * len(name)


def write_options(formatter: Any, verb: str, params: Sequence[Any], task: str, whole: bool) -> None:
    """The options of a verb, in sections: the common ones by name alone, or all with all their names."""
    arguments = [param for param in params if param.param_type_name == "argument"]
    options = {param.name: param for param in params if param.param_type_name == "option" and param.name != "help"}
    chosen = _by_panel(options) if whole or verb not in COMMON else _common(options, COMMON[verb], task)
    sections = {"Arguments": [(param.metavar or param.name.upper(), param.help or "") for param in arguments]}
    sections |= {title: [_row(param, whole) for param in entries] for title, entries in chosen.items()}
    sections[_END].append(("-h, --help", "the options that most people use" if verb in COMMON else "this text"))
    if verb in COMMON:
        sections[_END].append(("--help-all", f"all {len(options)} options"))
    column = min(_COLUMN, max(len(name) for rows in sections.values() for name, _ in rows))
    for title, rows in sections.items():
        if rows:
            formatter.write("\n")
            _write(formatter, "", f"{title}:" if verb in COMMON or title != _END else "Options:")
        for name, text in rows:
            if len(name) > column:  # on a line of its own
                formatter.write(f"  {name}\n")
                name = ""
            _write(formatter, f"  {name:{column}}  ", text)


def _common(options: dict[str, Any], common: dict[str, tuple[str, ...]], task: str) -> dict[str, list[Any]]:
    kind = HUB_TAGS.get(task, task)
    stand_for = {_COLUMNS: OF_TASK.get(kind, _TEXT), _NETWORK: NETWORK_OF_TASK.get(kind, ())}
    found = {
        title: [
            options[key]
            for name in names
            for each in stand_for.get(name, (name,))
            if each not in _NOT_OF_TASK.get(kind, ())
            if (key := each.replace(".", "__").replace("-", "_")) in options
        ]
        for title, names in common.items()
    }
    shown = [param for chosen in found.values() for param in chosen]
    return found | {_END: [param for param in options.values() if not param.rich_help_panel and param not in shown]}


def _by_panel(options: dict[str, Any]) -> dict[str, list[Any]]:
    """A section for each table of a run file, and what is no knob."""
    found: dict[str, list[Any]] = {}
    for param in options.values():
        panel = param.rich_help_panel or _END
        table, card = TABLES.get(panel), PASSES.get(panel)
        title = f"{panel}: {table.help} (--task {', '.join(table.kinds)})" if table else panel
        title = f"{panel}: {card.summary}" if card else title
        found.setdefault(title, []).append(param)
    return {**found, _END: found.get(_END, [])}


def _row(param: Any, whole: bool) -> tuple[str, str]:
    """Names and help; the common ones with one name and one clause."""
    names = [*param.opts, *param.secondary_opts] if whole else param.opts[:1]
    value = "" if param.is_flag else f" {param.metavar or 'VALUE'}"
    help = param.help or "" if whole else (param.help or "").partition(";")[0]
    default = f" (default {param.show_default})" if isinstance(param.show_default, str) else ""
    return f"{', '.join(names)}{value}", help + default
