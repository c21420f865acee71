"""Every flag that the code names, in a remedy, a note or a help text, can be typed."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import limbeck
from limbeck.cli.app import VERBS, app

HOME = Path(limbeck.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-z…](?:[\w.…-]*[\w…])?")  # … is what an f-string fills in
FOREIGN = {"--no-deps", "--paper"}  # pip's; a colour of the style sheet


@pytest.fixture(scope="module")
def flags() -> set[str]:
    """Of all verbs, as typer knows them."""
    every = (typer.main.get_command(app([verb])).commands[verb].params for verb in VERBS)
    return {
        "--help",
        "--help-all",
        "--version",
        *(flag for params in every for one in params for flag in (*one.opts, *one.secondary_opts)),
    }


def texts(code: str) -> Iterator[tuple[int, str]]:
    """Line and text of every string."""
    parts: set[int] = set()
    for node in ast.walk(ast.parse(code)):  # an f-string comes before its parts
        if isinstance(node, ast.JoinedStr):
            parts |= set(map(id, node.values))
            yield node.lineno, "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value


def unknown(code: str, flags: set[str]) -> list[str]:
    named = [(line, flag) for line, text in texts(code) for flag in FLAG.findall(text)]
    return [f"{line}: {flag}" for line, flag in named if flag not in FOREIGN and not _is_flag(flag, flags)]


def _is_flag(named: str, flags: set[str]) -> bool:
    form = re.sub("…|[A-Z]+", ".*", re.escape(named))  # --objective.NAME stands for any
    return any(re.fullmatch(form, flag) for flag in flags)


def test_every_flag_that_is_named_exists(flags):
    named = {file: unknown(file.read_text(encoding="utf-8"), flags) for file in sorted(HOME.rglob("*.py"))}
    wrong = [f"{file.relative_to(HOME)}:{place}" for file, places in named.items() for place in places]
    assert wrong == []


def test_a_flag_that_does_not_exist_is_found(flags):
    made = 'f"--windows.{role}_column, --data.{share}, --teacher{more}"'
    plain = '"--data.dev_share (--data.dev-share, -- or --text-column)."'
    assert unknown(f"{made}\n{plain}", flags) == ["1: --windows.…_column", "2: --data.dev_share"]
