"""Damaged files: whatever a byte turns into, a reader gives rows or an error in the user's words, never a traceback."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from limbeck.core.errors import LimbeckError
from limbeck.core.progress import Silent
from limbeck.core.task import LANGUAGE_KINDS
from limbeck.jobs.settings import Run, read_run
from limbeck.students.load import load
from limbeck.tasks.base import task_of
from tiny import make_classifier, make_rows, make_tokenizer
from tiny_places import make_questions, make_sentences
from tongues import sentences, translate

MANY = 100  # damages of each kind of file
ODD = (
    *(b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\\u0000", b"\\ud800"),
    *(b'"', b"'", b",", b"\t", b"\r", b"\n\n", b" ", b"{", b"}", b"[" * 3000, b"]", b":"),
    *(b"null", b"true", b"NaN", b"inf", b"-inf", b"1e400", b"9" * 400, b"9" * 5000, b"-1"),
)
ROWS = make_rows(40)


def damaged(data: bytes, seed: int) -> bytes:
    """One to three damages: a byte flipped, a part gone, doubled or replaced, the end missing, an odd word put in."""
    draw, data = random.Random(seed), bytearray(data)
    for _ in range(draw.randint(1, 3)):
        start = draw.randrange(len(data) or 1)
        stop = min(len(data), start + draw.choice((1, 2, 8, 40)))
        match draw.randrange(6):
            case 0 if data:
                data[start] ^= 1 << draw.randrange(8)
            case 1:
                del data[start:stop]
            case 2:
                data[start:start] = data[start:stop]
            case 3:
                del data[start:]
            case 4:
                data[start:stop] = draw.choice(ODD)
            case _:
                data[start:start] = draw.choice(ODD)
    return bytes(data)


def delimited(rows: list[dict[str, object]], mark: str = ",") -> bytes:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), delimiter=mark)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()


def lines(rows: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parquet(rows: list[dict[str, object]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


def conll() -> bytes:
    rows = make_sentences(40)
    return "\n".join("".join(f"{a} {b}\n" for a, b in zip(r["tokens"], r["tags"], strict=True)) for r in rows).encode()


def squad() -> bytes:
    asked = [{"id": str(n), **row} for n, row in enumerate(make_questions(40))]
    for row in asked:
        row["answers"] = [
            {"text": a, "answer_start": s}
            for a, s in zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True)
        ]
    parts = [{"context": row.pop("context"), "qas": [row]} for row in asked]
    return json.dumps({"version": "1", "data": [{"title": "t", "paragraphs": parts}]}).encode()


SCORES = [{"text": row["text"], "score": n / 3} for n, row in enumerate(ROWS)]
PAIRS = [{"source": text, "target": translate(text)} for text in sentences(40, 0)]
CHATS = [
    {"messages": [{"role": "user", "content": row["text"]}, {"role": "assistant", "content": "good"}]} for row in ROWS
]
FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "texts.csv": ("classify", lambda: delimited(ROWS)),
    "texts.tsv": ("classify", lambda: delimited(ROWS, "\t")),
    "texts.csv.gz": ("classify", lambda: gzip.compress(delimited(ROWS), mtime=0)),
    "texts.jsonl": ("classify", lambda: lines(ROWS)),
    "texts.json": ("classify", lambda: json.dumps(ROWS).encode()),
    "texts.parquet": ("classify", lambda: parquet(ROWS)),
    "scores.csv": ("regress", lambda: delimited(SCORES)),
    "scores.parquet": ("regress", lambda: parquet(SCORES)),
    "labels.jsonl": ("multilabel", lambda: lines([{"text": row["text"], "labels": [row["label"]]} for row in ROWS])),
    "tags.conll": ("tag", conll),
    "tags.jsonl": ("tag", lambda: lines(make_sentences(40))),
    "answers.jsonl": ("answer", lambda: lines(make_questions(40))),
    "squad.json": ("answer", squad),
    "pairs.csv": ("translate", lambda: delimited(PAIRS)),
    "pairs.jsonl": ("translate", lambda: lines(PAIRS)),
    "pairs.parquet": ("translate", lambda: parquet(PAIRS)),
    "corpus.txt": ("generate", lambda: "\n\n".join(row["text"] for row in ROWS).encode()),
    "corpus.jsonl": ("mask-fill", lambda: lines([{"text": row["text"]} for row in ROWS])),
    "chats.jsonl": ("generate", lambda: lines(CHATS)),
}


def refused(read: Callable[[], object]) -> str:
    """The problem with which reading ends, if any; an error that is not for the user is a fault."""
    try:
        read()
    except LimbeckError as error:
        return error.problem
    return ""


@pytest.mark.parametrize("name", FILES)
def test_damaged_data_is_read_or_refused(name, tmp_path):
    task, make = FILES[name]
    path, other, whole = tmp_path / name, tmp_path / f"whole-{name}", make()
    other.write_bytes(whole)

    def read(data: bytes) -> str:
        path.write_bytes(data)
        run = Run(data={"train": str(path), "dev": str(other), "test": str(other), "task": task})
        return refused(lambda: task_of(run, None).read(None, None, Silent()))

    assert read(whole) == ""
    found = [read(damaged(whole, seed)) for seed in range(MANY)]
    assert any(found) or task in LANGUAGE_KINDS  # running text may be any text


def test_a_damaged_run_file_is_read_or_refused(tmp_path):
    path = tmp_path / "run.toml"
    whole = (
        b'teacher = "model"\nepochs = 2\n[data]\ntrain = "a.csv"\nmax_length = 64\n[objective.hinton]\nweight = 0.5\n'
    )

    def read(data: bytes) -> str:
        path.write_bytes(data)
        return refused(lambda: Run(**read_run(path)))

    found = [read(damaged(whole, seed)) for seed in range(MANY)]
    assert any(found)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    make_classifier(layers=1, hidden=16).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"])
def test_a_damaged_model_is_loaded_or_refused(name, model):
    whole = (model / name).read_bytes()
    try:
        for data in (damaged(whole, seed) for seed in range(25)):
            (model / name).write_bytes(data)
            refused(lambda: load(str(model), "classify"))
    finally:
        (model / name).write_bytes(whole)
    before = AutoModelForSequenceClassification.from_pretrained(model)
    after, _ = load(str(model), "classify")
    weights = zip(before.state_dict().values(), after.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in weights)
