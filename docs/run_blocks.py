"""Runs every command and every block of README and docs, page by page, in a folder of tiny models and files.

.venv/bin/python docs/run_blocks.py                     # all pages, shortened: one epoch, one seed, no latencies
.venv/bin/python docs/run_blocks.py README.md --whole   # one page, as it stands there

A block in `sh` is run line by line, one in `python` with the names that the blocks before it left. One in `toml` or
`python` that begins with `# NAME` is a file of that name. `<!-- not run: why -->` before a block leaves it out.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import sandbox

HOME = Path(__file__).resolve().parent.parent
GENERATED = ("knobs.md", "methods.md", "encoders.md", "multi30k.md", "truncated.md")  # wholly by docs/make.py
PAGES = [HOME / "README.md", *sorted(p for p in (HOME / "docs").glob("*.md") if p.name not in GENERATED)]
LANGUAGES = ("sh", "python", "toml")
_FENCE = re.compile(r"^```(\w*)$")
_NOT_RUN = re.compile(r"<!-- not run: (.+?) -->")
_FILE = re.compile(r"# ([\w-]+\.(?:toml|py))\n")
_SHELL = re.compile(r"[|<>&;*$]")  # what only a shell can do
_SHORT = ("--epochs", "1", "--measure.no-speed", "--measure.bootstrap", "200")
SHORTER = {
    **dict.fromkeys(("distill", "compare"), (*_SHORT, "--seeds", "1")),
    **dict.fromkeys(("train", "tickets"), _SHORT),
    "bench": ("--measure.repeats", "1", "--measure.rounds", "5"),
}


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    text: str
    not_run: str  # why; "" where it is

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    language, start, before, lines = "", 0, "", []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if start and fence:
            left_out = _NOT_RUN.fullmatch(before)
            yield Block(page, start, language, "".join(lines), left_out[1] if left_out else "")
            start, before, lines = 0, "", []
        elif start:
            lines.append(line + "\n")
        elif fence:
            language, start = fence[1], number
        elif line.strip():
            before = line.strip()


def commands(text: str) -> list[str]:
    """The lines of a block in sh, those that go on after a backslash joined."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def run_page(page: Path, folder: Path, *, whole: bool = False, only: Collection[str] = LANGUAGES) -> list[str]:
    """What fails, each with its place. `folder` is a sandbox."""
    failures: list[str] = []
    names: dict[str, Any] = {"__name__": "__main__"}
    with _inside(folder):
        for block in blocks(page):
            if not block.not_run and block.language in only:
                failures += [f"{block.place}: {failure}" for failure in _failures(block, names, whole)]
    return failures


def _failures(block: Block, names: dict[str, Any], whole: bool) -> Iterator[str]:
    if file := _FILE.match(block.text):
        Path(file[1]).write_text(block.text, encoding="utf-8")
    elif block.language == "python":
        if failure := run_python(block, names):
            yield failure
    elif block.language == "toml":
        yield "a run file needs a name in its first line, as in # run.toml"
    else:
        for command in commands(block.text):
            code, said = run_command(command, whole)
            if code:
                yield f"{command}\n{_indented(said)}"


def run_python(block: Block, names: dict[str, Any]) -> str:
    code = "\n" * block.line + block.text  # so that a traceback has the page's lines
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            exec(compile(code, block.page.name, "exec"), names)
    except Exception:
        return _indented(traceback.format_exc())
    return ""


def run_command(command: str, whole: bool = False) -> tuple[int, str]:
    """Exit code and what was said: in this process, which has torch already, unless it takes a shell."""
    words = shlex.split(command, comments=True)
    shorter = () if whole else SHORTER.get(words[1], ()) if words[0] == "limbeck" else ()
    plain = _SHELL.search(command.split(" #")[0]) is None
    if words[0] == "limbeck" and plain:
        return _limbeck([*words[1:], *(() if "--print" in words or "--info" in words else shorter)])
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def _limbeck(words: list[str]) -> tuple[int, str]:
    from limbeck.cli import main

    said = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["limbeck", *words]),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0), said.getvalue()
        except Exception:
            return 1, traceback.format_exc()
    return 0, said.getvalue()


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """With a `limbeck` for shells that is this one."""
    program = folder / ".bin" / "limbeck"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m limbeck "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
    with mock.patch.dict(os.environ, {"PATH": path, "HF_HUB_OFFLINE": "1"}), contextlib.chdir(folder):
        yield


def _indented(text: str, last: int = 15) -> str:
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines()[-last:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES)
    parser.add_argument("--whole", action="store_true", help="run commands as they stand, with latencies")
    chosen = parser.parse_args()
    failures = []
    with tempfile.TemporaryDirectory(prefix="limbeck-docs-") as place:
        with contextlib.redirect_stderr(io.StringIO()):  # transformers' bars
            fresh = sandbox.make(Path(place) / "fresh")
        for page in chosen.pages:
            folder = Path(place) / page.stem
            shutil.copytree(fresh, folder)
            found = run_page(page.resolve(), folder, whole=chosen.whole)
            every = list(blocks(page))
            for block in every:
                if block.not_run:
                    print(f"{block.place}: not run: {block.not_run}", flush=True)
            print(f"{page.name}: {len(every)} blocks, {len(found)} failed", flush=True)
            failures += found
    print(*failures, sep="\n\n", file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
