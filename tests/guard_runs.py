"""The runs of guard.py by task: texts and tiny models to run on, and commands."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

BRIEF = "--batch-size 16 --train.threads 1 --train.evals-per-epoch 1 --measure.no-speed --measure.bootstrap 100"
LEARN = f"--epochs 1 --learning-rate 3e-3 {BRIEF} --measure.examples 2"
CUT = "--data.dev-share 0.2 --data.test-share 0.2"
USUAL = {  # flags of a verb that come before a run's own
    "train": LEARN,
    "distill": LEARN,
    "compare": f"{LEARN} --starts recipe",
    "cache": "--threads 1",
    "eval": "",
    "bench": "--measure.repeats 1 --measure.rounds 5 --measure.threads 1",
}


class Task(NamedTuple):
    make: Callable[[], None]  # puts texts and models into the working folder
    usual: str  # flags of train, distill and compare
    runs: dict[str, str]  # name → command; --out out/NAME is added. "NAME, resumed": NAME, cut off and resumed


def write(path: str, lines: Iterable[str]) -> None:
    Path(path).write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def write_rows(path: str, rows: list[dict[str, Any]]) -> None:
    if path.endswith("jsonl"):
        return write(path, map(json.dumps, rows))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return None


def save(model: Any, tokenizer: Any, folder: str) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def texts() -> None:
    from tiny import BAD, GOOD, make_classifier, make_rows, make_tokenizer

    rows, others = make_rows(150), make_rows(150, seed=5)
    write_rows("texts.csv", rows)
    write_rows("test.csv", make_rows(40, seed=7))
    write_rows("half.csv", [{**row, "label": row["label"] if place % 2 else ""} for place, row in enumerate(rows)])
    write_rows("bare.csv", [{"text": row["text"]} for row in rows])
    two = [("yes" if a["label"] == b["label"] else "no", a, b) for a, b in zip(rows, others, strict=True)]
    write_rows("pairs.csv", [{"premise": a["text"], "hypothesis": b["text"], "label": label} for label, a, b in two])
    kinds = (("bad", BAD), ("film", ["film"]), ("good", GOOD))
    named = [[name for name, words in kinds if set(row["text"].split()) & set(words)] for row in rows]
    write_rows("labels.jsonl", [{"text": a["text"], "labels": b} for a, b in zip(rows, named, strict=True)])
    write_rows("numbers.csv", [{"text": row["text"], "score": len(row["text"]) / 50} for row in rows])
    save(make_classifier(), make_tokenizer(), "start")
    save(make_classifier(labels=("yes", "no")), make_tokenizer(), "start-pairs")
    save(make_classifier(("bad", "film", "good"), problem_type="multi_label_classification"), make_tokenizer(), "many")
    save(make_classifier(("LABEL_0",), problem_type="regression"), make_tokenizer(), "number")
    save(make_classifier(layers=2, hidden=16, seed=3), make_tokenizer(), "small")


def places() -> None:
    from tiny import make_tokenizer
    from tiny_places import make_questions, make_reader, make_sentences, make_tagger

    for split, count, seed in (("train", 100, 0), ("dev", 20, 1), ("test", 30, 2)):
        tagged, asked = make_sentences(count, seed), make_questions(count, seed, unanswerable=0.1)
        write(f"{split}.conll", ("".join(map("{} {}\n".format, row["tokens"], row["tags"])) for row in tagged))
        write_rows(f"{split}.jsonl", asked)
    write_rows("tag-bare.jsonl", [{"tokens": row["tokens"]} for row in make_sentences(100)])
    write_rows("answer-bare.jsonl", [{"question": r["question"], "context": r["context"]} for r in make_questions(100)])
    save(make_tagger(layers=3), make_tokenizer(), "tagger")
    save(make_reader(layers=3), make_tokenizer(), "reader")


def words() -> None:
    from tiny import make_tokenizer
    from tiny_language import byte_level, make_causal, make_masked, make_text

    Path("corpus.txt").write_text("\n\n".join(make_text(60)), encoding="utf-8")
    Path("few.txt").write_text("\n\n".join(make_text(15, seed=4)), encoding="utf-8")
    write_rows("few.jsonl", [{"text": text} for text in make_text(15, seed=4)])
    save(make_masked(layers=4, heads=False), make_tokenizer(), "bare")
    save(make_masked(layers=2, seed=9), make_tokenizer(), "small")
    pieces = byte_level()
    save(make_causal(pieces, layers=2, padding=3), pieces, "gpt")
    save(make_causal(pieces, layers=1, padding=3, seed=9), pieces, "small-gpt")


def tongues() -> None:
    from tongues import WORDS, sentences, translate

    for split, count, seed in (("train", 160, 0), ("dev", 20, 7), ("test", 20, 8)):
        sources = sentences(count, seed)
        write(f"{split}.en", sources)
        write(f"{split}.de", map(translate, sources))
    each = "for line in sys.stdin.read().splitlines(): print(*[words.get(word, word) for word in line.split()])"
    write("box.py", ["import sys", f"words = {WORDS!r}", each])


COLUMNS = {
    "recipes": "finetune,hinton,pkd-skip,minilmv2,cka,logits,albert",
    "columns/one-layer/recipe": "hinton",
    "columns/one-layer/student/layers": 1,
    "columns/too-deep/recipe": "hinton",
    "columns/too-deep/student/layers": 9,
}
DIRECTIONS = {
    "data/task": "translate",
    "directions/en-de/teacher": "out/train en-de/model",
    "directions/en-de/train": "train.en",
    "directions/en-de/target": "train.de",
    "directions/en-de/dev": "dev.en",
    "directions/en-de/test": "test.en",
    "directions/de-en/teacher": "out/train de-en/model",
    "directions/de-en/train": "train.de",
    "directions/de-en/target": "train.en",
    "directions/de-en/dev": "dev.de",
    "directions/de-en/test": "test.de",
    "directions/de-en/repeat": 2,
}
RUN_FILES: dict[str, dict[str, Any]] = {"columns.toml": COLUMNS, "directions.toml": DIRECTIONS}
TAUGHT = "--teacher out/train/model"
OF_PLACES = {
    "train": "train --task {task} --model {model} {files} --epochs 4",
    "distill": f"distill --task {{task}} {TAUGHT} {{files}} --student.layers 2",
    "distill live": f"distill --task {{task}} {TAUGHT} {{files}} --student.layers 2 --teacher-cache.live --no-baseline",
    "distill unlabelled": f"distill --task {{task}} {TAUGHT} --data {{task}}-bare.jsonl {CUT} --student.layers 1",
    "distill tinybert": f"distill --task {{task}} {TAUGHT} {{files}} --recipe tinybert --no-baseline "
    "--stages.intermediate.epochs 1 --epochs 1",
    "compare": f"compare --task {{task}} {TAUGHT} {{files}} --recipes finetune,hinton,pkd-skip,minilmv2,cka",
    "eval": f"eval out/distill/student --data test.{{ending}} {TAUGHT}",
    "bench": "bench out/distill/student --data test.{ending}",
}
NEW = (
    "--seq2seq.hidden 32 --seq2seq.heads 2 --seq2seq.encoder-layers 2 --seq2seq.decoder-layers 2 "
    "--seq2seq.vocabulary 90 --seq2seq.dropout 0"
)
ENDE = "--task translate --data train.en --target train.de --data.dev dev.en --data.test test.en"
DEEN = "--task translate --data train.de --target train.en --data.dev dev.de --data.test test.de"
BEAM, BOX = "--translate.beam 2 --translate.test-beam 2", "--translate.command 'python3 box.py'"
FILL, NEXT = "--task mask-fill --data corpus.txt", "--task generate --data corpus.txt"


def of_places(**how: str) -> dict[str, str]:
    how["files"] = "--data train.{0} --data.dev dev.{0} --data.test test.{0}".format(how["ending"])
    return {name: command.format(**how) for name, command in OF_PLACES.items()}


TASKS = {
    "classify": Task(texts, CUT, {
        "train": "train --model start --data texts.csv --epochs 6 --batch-size 8",
        "distill": f"distill {TAUGHT} --data texts.csv --epochs 2 --train.evals-per-epoch 2",
        "distill, resumed": f"distill {TAUGHT} --data texts.csv --epochs 2 --train.evals-per-epoch 2",
        "distill live": f"distill {TAUGHT} --data texts.csv --teacher-cache.live --no-baseline",
        "distill student-from": f"distill {TAUGHT} --data texts.csv --student-from small",
        "distill half labelled": f"distill {TAUGHT} --data half.csv --seed 3",
        "distill unlabelled": f"distill {TAUGHT} --data bare.csv",
        "distill custom": f"distill {TAUGHT} --data texts.csv --recipe custom --objective.labels.weight 0.5 "
        "--objective.logits.weight 2 --no-baseline",
        "distill tinybert": f"distill {TAUGHT} --data texts.csv --recipe tinybert --augment.copies 2 --epochs 1 "
        "--stages.intermediate.epochs 1",
        "distill mobilebert": f"distill {TAUGHT} --data texts.csv --recipe mobilebert --no-baseline --data.limit 40",
        "distill bilstm": f"distill {TAUGHT} --data texts.csv --recipe bilstm --augment.copies 2 --no-baseline",
        "distill seq-kd": f"distill {TAUGHT} --data texts.csv --recipe seq-kd",
        "compare": f"compare columns.toml {TAUGHT} --data texts.csv --seeds 2",
        "eval": "eval out/train/model --data test.csv",
        "eval beside": f"eval out/distill/student --data test.csv {TAUGHT}",
        "bench": "bench out/distill/student --data test.csv",
        "train pairs": "train --model start-pairs --data pairs.csv",
        "distill pairs": "distill --teacher 'out/train pairs/model' --data pairs.csv",
        "distill pairs tinybert": "distill --teacher 'out/train pairs/model' --data pairs.csv --recipe tinybert "
        "--augment.copies 1 --epochs 1 --stages.intermediate.epochs 1 --no-baseline",
        "compare pairs": "compare --teacher 'out/train pairs/model' --data pairs.csv --recipes finetune,pkd-last",
        "eval pairs": "eval 'out/distill pairs/student' --data pairs.csv --teacher 'out/train pairs/model'",
        "bench pairs": "bench 'out/distill pairs/student' --data pairs.csv",
    }),
    "multilabel": Task(texts, CUT, {
        "train": "train --model many --data labels.jsonl --epochs 2",
        "distill": f"distill {TAUGHT} --data labels.jsonl",
        "compare": f"compare {TAUGHT} --data labels.jsonl --recipes finetune,hinton,pkd-skip,bilstm --augment.copies 1",
        "eval": f"eval out/distill/student --data labels.jsonl {TAUGHT}",
        "bench": "bench out/distill/student --data labels.jsonl",
    }),
    "regress": Task(texts, CUT, {
        "train": "train --model number --data numbers.csv --epochs 2",
        "distill": f"distill {TAUGHT} --data numbers.csv",
        "distill hinton": f"distill {TAUGHT} --data numbers.csv --recipe hinton",
        "distill unlabelled": f"distill {TAUGHT} --data bare.csv",
        "compare": f"compare {TAUGHT} --data numbers.csv --recipes finetune,logits,minilmv2",
        "eval": f"eval out/distill/student --data numbers.csv {TAUGHT}",
        "bench": "bench out/distill/student --data numbers.csv",
    }),
    "tag": Task(places, "", of_places(task="tag", model="tagger", ending="conll")),
    "answer": Task(places, "", of_places(task="answer", model="reader", ending="jsonl")),
    "mask-fill": Task(words, "--blocks.length 16", {
        "train": f"train {FILL} --model bare --epochs 3",
        "train pairs": f"train {FILL} --model bare --blocks.pairs",
        "cache": f"cache {TAUGHT} --data corpus.txt --blocks.length 16 --top 8 --mask.rounds 2",
        "cache info": "cache --info out/cache",
        "distill": f"distill {FILL} {TAUGHT} --top 8",
        "distill, resumed": f"distill {FILL} {TAUGHT} --top 8",
        "distill live": f"distill {FILL} {TAUGHT} --teacher-cache.live --objective.truncated.k 8 --no-baseline",
        "distill cache": f"distill {FILL} --cache out/cache --student-from small",
        "distill pairs": f"distill {FILL} --teacher 'out/train pairs/model' --blocks.pairs --no-baseline",
        "distill distilbert": f"distill {FILL} {TAUGHT} --recipe distilbert",
        "distill word-kd": f"distill {FILL} {TAUGHT} --recipe word-kd --seeds 2 --no-baseline",
        "distill mobilebert": f"distill {FILL} {TAUGHT} --recipe mobilebert --no-baseline --data.limit 40",
        "distill tinybert-general": f"distill {FILL} {TAUGHT} --recipe tinybert-general --no-baseline",
        "compare": f"compare {FILL} {TAUGHT} --recipes finetune,truncated",
        "eval": f"eval out/distill/student --task mask-fill --data few.txt --blocks.length 16 {TAUGHT}",
        "bench": "bench out/distill/student",
        "bench of a text": "bench out/distill/student --data few.txt",
    }),
    "generate": Task(words, "--blocks.length 16", {
        "train": f"train {NEXT} --model gpt",
        "cache": f"cache {TAUGHT} --data corpus.txt --blocks.length 16 --draws 20 --temperature 1",
        "distill": f"distill {NEXT} {TAUGHT} --top 8 --data.limit 100",
        "distill sampled": f"distill {NEXT} {TAUGHT} --cache out/cache --recipe custom --objective.sampled.weight 1 "
        "--student-from small-gpt --no-baseline",
        "distill word-kd": f"distill {NEXT} {TAUGHT} --recipe word-kd --student-from small-gpt --data.limit 100",
        "eval": f"eval out/distill/student --task generate --data few.txt --blocks.length 16 {TAUGHT}",
        "bench": "bench out/distill/student --data few.jsonl",
    }),
    "translate": Task(tongues, "--learning-rate 1e-2", {
        "train": f"train {ENDE} {NEW} --epochs 10",
        "distill": f"distill {ENDE} {TAUGHT} {BEAM}",
        "distill word-kd": f"distill {ENDE} {TAUGHT} {BEAM} --recipe word-kd --no-baseline",
        "distill seq-inter": f"distill {ENDE} {TAUGHT} {BEAM} --recipe seq-inter --stages.interpolate.epochs 1",
        "distill all three": f"distill {ENDE} {TAUGHT} {BEAM} --recipe seq-kd+seq-inter+word-kd "
        "--stages.interpolate.epochs 1 --no-baseline",
        "distill student-from": f"distill {ENDE} {TAUGHT} {BEAM} --student-from out/distill/student --no-baseline",
        "distill in transformers": f"distill {ENDE} {TAUGHT} {BEAM} --translate.engine transformers --no-baseline",
        "distill black box": f"distill {ENDE} {NEW} {BEAM} {BOX} --translate.metric chrf --epochs 2",
        "distill black box word-kd": f"distill {ENDE} {BOX} --recipe word-kd",
        "compare": f"compare {ENDE} {TAUGHT} {BEAM} --recipes finetune,word-kd,seq-kd --seeds 2",
        "eval": f"eval out/distill/student --task translate --data test.en --target test.de {TAUGHT}",
        "eval int8": "eval out/distill/export/ctranslate2 --data test.en --target test.de",
        "bench": "bench out/distill/student out/distill/export/ctranslate2 --data test.en --beam 2",
    }),
    "multilingual": Task(tongues, "", {
        "train en-de": f"train {ENDE} {NEW} --tag de --tags de,en --epochs 10 --learning-rate 1e-2",
        "train de-en": f"train {DEEN} {NEW} --tag en --vocabulary-from 'out/train en-de/model'",
        "distill": f"distill directions.toml {BEAM} --recipe multilingual --epochs 3",
        "distill seq-kd": "distill directions.toml --recipe seq-kd",
        "compare": f"compare directions.toml {BEAM} --recipes multilingual,word-kd",
        "eval": "eval out/distill/student --task translate --data test.en --target test.de --parallel.prefix '<2de> '",
    }),
}  # fmt: skip
