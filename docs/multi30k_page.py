"""docs/multi30k.md: Kim and Rush's table on Multi30k, from the Records of benchmarks/multi30k.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from encoders_page import longer

from limbeck.core.record import Record
from limbeck.jobs.record import TIMED_ONCE
from limbeck.report.summary import gain_sentences, gap_sentences, speed_conditions
from limbeck.report.table import halves, markdown_table

SETS = {"multi30k": "test_2016_flickr", "multi30k_2017": "test_2017_flickr"}


def page(records: Mapping[str, Record], timed: Record | None = None) -> str:
    parts = [
        "# Multi30k: translation, by word and by sentence",
        "Multi30k, English to German, made by `benchmarks/multi30k.py`: `limbeck train` makes the teacher, "
        "`limbeck compare` its students. K is the width of the beam; p(ŷ) the probability that a model gives its own "
        "best translation; the perplexities are of the given targets and of the teacher's translations; gains are in "
        "greedy BLEU. `finetune-13` has no teacher and learns for 13 epochs, as long as those with `seq-inter`; the "
        "others for 10. Mean ± one standard deviation over the seeds.",
        "The student is not the first one: one of width 128, trained without a teacher, left no gap to the teacher "
        "that could be closed. Of two smaller ones 2+2 layers × 64 was taken then, by BLEU on dev and before any "
        "student of that size had a teacher; those trials have no Record here. Students start from as much of the "
        "teacher's weights as fits them.",
    ]
    for name, title in SETS.items():
        if name in records:
            record = records[name]
            said = [*gain_sentences(record), *gap_sentences(record)]
            with_speed = any(arm.speed for arm in record.arms)  # on one set only
            tables = [markdown_table([record], keys) for keys in halves(record)[: 1 + with_speed]]
            once = f" {TIMED_ONCE}" if TIMED_ONCE in record.notes else ""
            how = f"Speed: {speed_conditions(record)}.{once}" if with_speed else ""
            parts += [f"## {title}", *tables, how, "\n".join(f"- {line}" for line in said), longer(record)]
    return "\n\n".join(filter(None, [*parts, *(_speed(timed) if timed else ())])) + "\n"


def _speed(record: Record) -> Iterator[str]:
    """What engine and size are worth, and what they cost in BLEU."""
    found = record.figures
    whole, beam = found["bleu_teacher_transformers"], record.knobs["beam"]
    rows = (
        ("teacher, transformers, float32", beam, "teacher_transformers", 1.0),
        ("teacher, CTranslate2, int8", beam, "teacher_ctranslate2", found["tokens_per_second_over_generate"]),
        ("student, CTranslate2, int8", beam, "student_beam", found["student_with_beam_over_teacher"]),
        ("student, CTranslate2, int8", 1, "student_greedy", found["student_sentences_per_second_over_teacher"]),
    )
    yield "## Speed"
    yield (
        "By `benchmarks/translating.py`: in one run, everyone alone on both cores, in the same batches of like length. "
        "The teacher in CTranslate2 is judged by its tokens a second, the student by its sentences. The student is the "
        f"best by dev, and takes {found['student_bytes_over_teacher']:.3f} of the teacher's bytes."
    )
    lines = ["| who | K | BLEU | lost | speed |", "| --- | ---: | ---: | ---: | ---: |"]
    for who, width, name, speed in rows:
        bleu = found[f"bleu_{name}"]
        lines.append(f"| {who} | {width} | {bleu:.1f} | {whole - bleu:.1f} | {speed:.1f} × |")
    yield "\n".join(lines)
