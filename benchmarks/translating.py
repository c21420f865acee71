"""How fast teacher and student translate: CTranslate2 against transformers' generate, and the small against the large.

The models are those of benchmarks/multi30k.py, which has to run first; the sources Multi30k's test_2016_flickr, in the
same batches of like length for everyone. Each engine is timed alone in a process of its own, by turns.
Reads ../shared/data/multi30k_en_de.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from common import Finding, Limit, child, each_turn, finish, flags, median_of, settle, turn_by_turn
from story import WORK

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "multi30k_en_de"
PLACE = WORK / "multi30k"
TEACHER, TEACHER_INT8, STUDENT = (
    PLACE / "teacher" / "model",
    PLACE / "teacher-int8",
    PLACE / "compare" / "export" / "ctranslate2",
)
BEAM = 5
RUNS: dict[str, tuple[Path, int]] = {
    "teacher_transformers": (TEACHER, BEAM),
    "teacher_ctranslate2": (TEACHER_INT8, BEAM),
    "student_greedy": (STUDENT, 1),
    "student_beam": (STUDENT, BEAM),
}


def texts(rows: int) -> tuple[list[str], list[str]]:
    from limbeck.data.seq2seq.pairs import read_parallel
    from limbeck.data.settings import DataSettings, ParallelSettings

    source = str(DATA / "test_2016_flickr.en.gz")
    settings = DataSettings(train=source, dev=source, test=source, task="translate")
    target = str(DATA / "test_2016_flickr.de.gz")
    found = read_parallel(settings, ParallelSettings(target=target, dev_target=target, test_target=target)).test
    return found.sources[:rows], found.targets[:rows]


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """In a process of its own: what it writes, how fast, and what that is worth."""
    settle(job["threads"])
    from sacrebleu import corpus_bleu

    from limbeck.engines.ctranslate2 import CTranslate2Engine
    from limbeck.engines.transformers import TransformersEngine
    from limbeck.students.load import load

    folder, beam = Path(job["folder"]), job["beam"]
    sources, targets = texts(job["rows"])
    in_transformers = (folder / "model.safetensors").exists()
    opened = load(folder, "translate") if in_transformers else ()
    translator = TransformersEngine(*opened) if opened else CTranslate2Engine(folder, threads=job["threads"])
    translator.translate(sources[:32], beam)
    start = time.perf_counter()
    written = [best[0].text for best in translator.translate(sources, beam)]
    seconds = time.perf_counter() - start
    tokens = sum(map(len, translator.tokenizer(written)["input_ids"]))
    return {
        "tokens_per_second": tokens / seconds,
        "sentences_per_second": len(sources) / seconds,
        "bleu": corpus_bleu(written, [targets]).score,
    }


def run(args: argparse.Namespace) -> Finding:
    from limbeck.engines.base import BATCH_TOKENS
    from limbeck.exporters.ctranslate2 import convert
    from limbeck.measure.size import weight_bytes

    if not TEACHER.exists() or not STUDENT.exists():
        raise SystemExit("there is no teacher or student yet: run benchmarks/multi30k.py first")
    convert(TEACHER, TEACHER_INT8, "int8")
    rows, turns = (64, 1) if args.quick else (1000, 3)

    def timed(name: str) -> dict[str, Any]:
        folder, beam = RUNS[name]
        job = {"folder": str(folder), "beam": beam, "rows": rows, "threads": args.threads}
        return child([sys.executable, __file__, "--job", json.dumps(job)], args.threads)

    found = turn_by_turn(list(RUNS), turns, timed)
    slow, fast = found["teacher_transformers"], found["teacher_ctranslate2"]
    speed = {name: median_of(found[name], "sentences_per_second") for name in RUNS}
    bleu = {name: found[name][0]["bleu"] for name in RUNS}
    figures = {
        "tokens_per_second_over_generate": median_of(fast, "tokens_per_second") / median_of(slow, "tokens_per_second"),
        "bleu_apart_from_generate": abs(bleu["teacher_ctranslate2"] - bleu["teacher_transformers"]),
        "student_sentences_per_second_over_teacher": speed["student_greedy"] / speed["teacher_transformers"],
        "student_bytes_over_teacher": weight_bytes(STUDENT) / weight_bytes(TEACHER),
        "student_with_beam_over_teacher": speed["student_beam"] / speed["teacher_transformers"],
        **{f"bleu_{name}": value for name, value in bleu.items()},
    }
    limits = (
        Limit("tokens_per_second_over_generate", at_least=3),
        Limit("bleu_apart_from_generate", at_most=0.3),
        Limit("student_sentences_per_second_over_teacher", at_least=10),
        Limit("student_bytes_over_teacher", at_most=1 / 8),
    )
    notes = (
        f"{rows:,} sentences, beam {BEAM} unless greedy, {args.threads} threads, batches of like length of at most "
        f"{BATCH_TOKENS:,} source tokens for everyone; tokenising included.",
        "The student is the best of benchmarks/multi30k.py by dev, in int8 in CTranslate2, writing greedily; the "
        "teacher it is set against runs in transformers in float32.",
    )
    return Finding(figures, limits, {"rows": rows, "turns": turns, "beam": BEAM}, notes, each_turn(found))


def main() -> int:
    args = flags(__doc__ or "").parse_args()
    if args.job:
        print(json.dumps(measure(json.loads(str(args.job)))))
        return 0
    return finish("translating", run(args), args)


if __name__ == "__main__":
    sys.exit(main())
