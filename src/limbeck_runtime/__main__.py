"""`python -m limbeck_runtime FOLDER "a text"`: the answer of an exported model as a line of JSON."""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from limbeck_runtime import Model, UnusableError, __version__, load
from limbeck_runtime.answers import Answer, as_json, beside, cell

AT_ONCE = 512  # rows, of which those of like length share a batch
DELIMITERS = {".csv": ",", ".tsv": "\t"}
Row = dict[str, str]


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    try:
        _run(asked)
    except UnusableError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever reads has had enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("limbeck_runtime", description="Answers texts with an exported model.")
    parser.add_argument("folder", help="the folder that `limbeck export --to onnx` wrote")
    parser.add_argument("text", nargs="?", default="", help="a text or a question; - for standard input, one per line")
    parser.add_argument("second", nargs="?", default="", help="the second text of a pair, or the context of a question")
    parser.add_argument("--data", default="", help="a .csv or .tsv file of texts, with a header")
    parser.add_argument("--text-column", default="text", help="its column with the text (default: text)")
    parser.add_argument("--pair-column", default="", help="its column with the second text, or the context")
    parser.add_argument("--out", default="", help="a .csv or .tsv file for the rows with their answers")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (default: OMP_NUM_THREADS, or 1)")
    parser.add_argument("--all-probabilities", action="store_true", help="the probability of every class")
    parser.add_argument("--version", action="version", version=__version__)
    return parser


def _run(asked: argparse.Namespace) -> None:
    if bool(asked.text) == bool(asked.data):
        raise UnusableError("give one of a text and --data", 'as in: python -m limbeck_runtime FOLDER "a text"')
    if asked.out and not asked.data:
        raise UnusableError("--out needs --data", "leave it out: the answer is printed")
    for path in filter(None, (asked.data, asked.out)):
        if Path(path).suffix.lower() not in DELIMITERS:
            raise UnusableError(f"{path} is neither .csv nor .tsv", "convert it, or use `limbeck predict`")
    if asked.data:
        rows: Iterable[Row] = _read(Path(asked.data), asked.text_column, asked.pair_column)
    elif asked.text == "-":
        rows = ({"text": line.rstrip("\r\n")} for line in sys.stdin)
    else:
        rows = [{"text": asked.text, "pair": asked.second}]
    text, pair = (asked.text_column, asked.pair_column) if asked.data else ("text", "pair" if asked.second else "")
    model = load(asked.folder, asked.threads)
    found = _answered(model, rows, text, pair, asked.all_probabilities, 1 if asked.text else AT_ONCE)
    if asked.out:
        count = _write(Path(asked.out), (beside(row, answer) for row, answer in found))
        print(f"answers {asked.out} ({count:,} rows)")
        return
    for _, answer in found:
        print(as_json(answer), flush=True)


def _read(path: Path, text: str, pair: str) -> Iterator[Row]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, delimiter=DELIMITERS[path.suffix.lower()])
            for name in filter(None, (text, pair)):
                if name not in (reader.fieldnames or ()):
                    columns = ", ".join(reader.fieldnames or ())
                    raise UnusableError(f"{path} has no column '{name}'; its columns: {columns}", "name it by its flag")
            for row in reader:
                if None in row or None in row.values():
                    wrong = f"{path}, line {reader.line_num}: not as many fields as the header has"
                    raise UnusableError(wrong, "mend that line")
                yield row
    except FileNotFoundError:
        raise UnusableError(f"there is no file {path}", "check its name") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UnusableError(f"{path} cannot be read: {error}", "save it as UTF-8") from None


def _answered(
    model: Model, rows: Iterable[Row], text: str, pair: str, every: bool, at_once: int
) -> Iterator[tuple[Row, Answer]]:
    """Each row with its answer; an empty text has one whose values are None."""
    left = iter(rows)
    while some := list(islice(left, at_once)):
        full = [row for row in some if row[text].strip() and (not pair or row[pair].strip())]
        pairs = [row[pair] for row in full] if pair else None
        answers = model.predict([row[text] for row in full], pairs, all_probabilities=every)
        names = list(answers[0]) if answers else _names(model)
        ahead = iter(zip(full, answers, strict=True))
        following = next(ahead, None)
        for row in some:
            if following and row is following[0]:
                yield following
                following = next(ahead, None)
            else:
                yield row, dict.fromkeys(names)


def _names(model: Model) -> list[str]:
    return list(model.predict(["a"], ["a"] if model.kind == "answer" else None)[0]) if model.kind != "mask-fill" else []


def _write(path: Path, rows: Iterable[dict[str, object]]) -> int:
    """Whole or not at all; how many rows."""
    count, handle = 0, None
    try:
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        with open(handle, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=DELIMITERS[path.suffix.lower()], lineterminator="\n")
            for row in rows:
                if not count:
                    writer.writerow(row)
                writer.writerow([cell(name, value) for name, value in row.items()])
                count += 1
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(part, 0o666 & ~umask)
        os.replace(part, path)
    except OSError as error:
        raise UnusableError(f"{path} cannot be written: {error.strerror}", "choose another place with --out") from None
    finally:
        if handle is not None and os.path.exists(part):
            os.unlink(part)
    return count


def run() -> None:
    """The console script."""
    sys.exit(main())


if __name__ == "__main__":
    run()
