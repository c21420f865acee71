"""A folder in which the commands of the pages run: tiny untrained models and small files under the names they use."""

from __future__ import annotations

import csv
import json
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

import tiny
import tiny_images
import tiny_language
import tiny_places
import tongues
import untaught

Row = dict[str, object]


def make(folder: Path) -> Path:
    """Everything that a page may name."""
    folder.mkdir(parents=True, exist_ok=True)
    for write in (_texts, _tags, _questions, _running_text, _translations, _images):
        write(folder)
    return folder


def _texts(folder: Path) -> None:
    words = tiny.make_tokenizer()
    tiny_language.save(tiny.make_classifier(), words, folder / "my-classifier")
    tiny_language.save(tiny.make_classifier(seed=1), words, folder / "other-classifier")
    tiny_language.save(tiny_language.make_masked(layers=4, hidden=32, heads=False), words, folder / "my-encoder")
    reviews, draw = tiny.make_rows(), random.Random(0)
    for name, rows in (("reviews", reviews), ("test", tiny.make_rows(80, seed=1)), ("other", tiny.make_rows(seed=2))):
        tiny.write_csv(folder / f"{name}.csv", rows)
    likely = {"negative": ("0.9", "0.1"), "positive": ("0.2", "0.8")}
    judged = [
        {**row, "llm": row["label"], **dict(zip(("p_negative", "p_positive"), likely[row["label"]], strict=True))}
        for row in reviews
    ]
    tiny.write_csv(folder / "judged.csv", judged)
    texts = [str(row["text"]) for row in reviews]
    tiny.write_csv(folder / "texts.csv", [{"text": text} for text in texts])
    tiny.write_csv(folder / "new.csv", [{"text": text} for text in texts[:20]])
    tiny.write_csv(folder / "more.csv", tiny.make_rows(120, seed=3))
    for name, seed in (("lines", 4), ("raw", 5)):
        lines = (f"{row['text']}\n" for row in tiny.make_rows(200, seed))
        (folder / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    (folder / "new.txt").write_text("\n".join(texts[:5]) + "\n", encoding="utf-8")
    tiny.write_csv(
        folder / "pairs.csv",
        [{"premise": a, "hypothesis": b, "label": draw.choice(("yes", "no"))} for a, b in _neighbours(texts)],
    )
    tiny.write_csv(
        folder / "topics.csv",
        [{"text": text, "labels": draw.choice(("film", "actor", "film|actor", "plot|actor"))} for text in texts],
    )
    tiny.write_csv(folder / "scores.csv", [{"text": text, "score": f"{draw.uniform(0, 5):.2f}"} for text in texts])
    with (folder / "no-header.tsv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t").writerows((row["label"], row["text"]) for row in reviews)
    (folder / "windows.csv").write_bytes((folder / "reviews.csv").read_text(encoding="utf-8").encode("cp1252"))


def _images(folder: Path) -> None:
    tiny_images.make_folder(folder / "my-images")


def _neighbours(texts: Sequence[str]) -> Iterable[tuple[str, str]]:
    return zip(texts, [*texts[1:], texts[0]], strict=True)


def _tags(folder: Path) -> None:
    tiny_language.save(tiny_places.make_tagger(layers=4), tiny.make_tokenizer(), folder / "my-tagger")
    for name, rows, seed in (("train", 160, 0), ("test", 40, 1)):
        sentences = tiny_places.make_sentences(rows, seed)
        lines = ["".join(map("{} {}\n".format, row["tokens"], row["tags"])) for row in sentences]
        (folder / f"{name}.conll").write_text("\n".join(lines), encoding="utf-8")
        _write_json_lines(folder / f"{name}-tags.jsonl", sentences)


def _questions(folder: Path) -> None:
    tiny_language.save(tiny_places.make_reader(layers=4), tiny.make_tokenizer(), folder / "my-reader")
    for name, rows, seed in (("squad", 160, 0), ("squad-test", 40, 1)):
        questions = tiny_places.make_questions(rows, seed)
        paragraphs = [_paragraph(str(place), **row) for place, row in enumerate(questions)]
        layout = {"version": "1.1", "data": [{"title": "", "paragraphs": paragraphs}]}
        (folder / f"{name}.json").write_text(json.dumps(layout), encoding="utf-8")
        _write_json_lines(folder / f"{name}.jsonl", questions)
    bare = [{"question": row["question"], "context": row["context"]} for row in tiny_places.make_questions(80, seed=2)]
    _write_json_lines(folder / "more-questions.jsonl", bare)


def _paragraph(name: str, question: str, context: str, answers: dict[str, list[object]]) -> Row:
    """A question in SQuAD's layout."""
    pairs = zip(answers["text"], answers["answer_start"], strict=True)
    listed = [{"text": text, "answer_start": start} for text, start in pairs]
    return {"context": context, "qas": [{"id": name, "question": question, "answers": listed}]}


def _running_text(folder: Path) -> None:
    words, bytes_ = tiny.make_tokenizer(), tiny_language.byte_level()
    tiny_language.save(tiny_language.make_masked(layers=4), words, folder / "my-language-model")
    tiny_language.save(tiny_language.make_causal(bytes_, layers=4), bytes_, folder / "my-causal-model")
    (folder / "corpus.txt").write_text("\n\n".join(tiny_language.make_text(240)) + "\n", encoding="utf-8")
    chats: list[Row] = [
        {"messages": [{"role": "user", "content": "How was it?"}, {"role": "assistant", "content": text}]}
        for text in tiny_language.make_text(120, seed=1)
    ]
    _write_json_lines(folder / "chats.jsonl", chats)


def _translations(folder: Path) -> None:
    tongues.write_pairs(folder, 320)
    sources = tongues.sentences(60, seed=1)
    targets = [tongues.translate(source) for source in sources]
    (folder / "test.en").write_text("\n".join(sources) + "\n", encoding="utf-8")
    (folder / "test.de").write_text("\n".join(targets) + "\n", encoding="utf-8")
    (folder / "mono.en").write_text("\n".join(tongues.sentences(80, seed=2)) + "\n", encoding="utf-8")
    both = [(folder / f"train.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de")]
    with (folder / "train.tsv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t").writerows([("en", "de"), *zip(*both, strict=True)])
    untaught.make_teacher(folder / "my-translator", [*sources, *targets])
    program = folder / "translate.sh"
    program.write_text("#!/bin/sh\nexec tr a-m n-z\n", encoding="utf-8")
    program.chmod(0o755)


def _write_json_lines(path: Path, rows: Iterable[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
