"""SST-2's teacher becomes a small fast file, by one command; beside what a user would pick instead, in the same run.

    python benchmarks/small.py

Teacher: MiniLM-L6 fine-tuned on all 67,349 rows, answering in eager PyTorch. Student: `limbeck distill --preset tiny`,
three seeds, as int8 ONNX. Peers, all made from the same teacher: ONNX Runtime's dynamic int8,
the same after ONNX Runtime's own optimiser, OpenVINO, and Model2Vec's static vectors with a logistic regression on all
rows. OpenVINO and Model2Vec live in an environment of their own, which the first run makes.

How it is counted: bytes of every file needed to answer, tokenizer included, on both sides; the 1,821 test sentences one
by one, one thread, tokenising included; texts of 32 and 128 tokens beside them. One process each, turn by turn.
"""

from __future__ import annotations

import csv
import gzip
import json
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import HERE, Finding, Limit, child, each_turn, environment, finish, flags, median_of, turn_by_turn
from limbeck.core.record import Arm, DataCard, LengthSpeed, Record, SeedResult, Size, Speed
from limbeck.core.task import TaskInfo
from limbeck.data.sources.demo import demo_model
from limbeck.jobs.measured import now
from limbeck.measure.machine import machine
from story import WORK, limbeck, publish

DATA = HERE.parent.parent / "shared" / "data" / "sst2"
PRESETS = {"tiny": ["--student.keep", "1,5"]}
TITLES = {"teacher": "MiniLM-L6, eager PyTorch", **{preset: f"--preset {preset}, int8" for preset in PRESETS}}
TURNS, SEEDS, TEST_ROWS = 5, 3, 1_821
MEASURE = ["--measure.speed", "--measure.threads", 1, "--measure.examples", 0]  # every step of the chain is timed
LENGTHS, OF_EACH_LENGTH = (32, 128), 100
PEERS = ["model2vec==0.10.0", "openvino==2026.4.1"]
LIMITS = (
    Limit("tiny_smaller", at_least=15),
    Limit("tiny_faster", at_least=15),
    Limit("tiny_kept", at_least=0.97),
)


@dataclass(frozen=True)
class Contestant:
    engine: str  # of peers/answering.py
    folder: Path
    python: Path = Path(sys.executable)


def main() -> int:
    args = flags(__doc__.splitlines()[0]).parse_args()
    place = WORK / "small"
    rows = ["--data", DATA, "--data.max-length", 64]
    limbeck("train", place / "teacher", "--model", demo_model(), *rows, "--epochs", 2, "--measure.no-speed")
    teacher = place / "teacher" / "model"
    contestants = {"teacher": Contestant("torch", teacher)}
    for preset, more in PRESETS.items():
        run = place / preset
        made = ["--teacher", teacher, *rows, "--preset", preset, *more, "--seeds", SEEDS, "--export", "onnx-int8"]
        limbeck("distill", run, *made, "--no-baseline", *MEASURE)
        publish(Record.load(run), f"small_sst2_{preset}")
        contestants |= {f"{preset}, seed {n}": Contestant("limbeck", exported(run, n)) for n in range(SEEDS)}
    contestants |= peers(place, teacher)
    texts = write_texts(place / "texts.json", teacher)

    def measure(name: str) -> dict[str, Any]:
        one = contestants[name]
        return child([one.python, HERE / "peers" / "answering.py", one.engine, one.folder, texts], threads=1)

    found = turn_by_turn(list(contestants), 1 if args.quick else TURNS, measure)
    sizes = {name: bytes_to_answer(one.folder) for name, one in contestants.items()}
    if not args.quick:
        publish(frontier(found, sizes), "small_frontier")
    return finish("small", finding(found, sizes), args)


def exported(run: Path, seed: int) -> Path:
    """The int8 file of one seed; the run itself writes that of the best one."""
    out = run / f"onnx-int8-seed{seed}"
    if not out.exists():
        model = run / "arms" / f"distilled-seed{seed}" / "model"
        command = [sys.executable, "-m", "limbeck", "export", model, "--to", "onnx-int8", "--data", DATA, "--out", out]
        subprocess.run([str(word) for word in command], check=True)
    return out


def bytes_to_answer(folder: Path) -> int:
    """Weights, tokenizer, settings: whatever lies there, on every side alike."""
    return sum(file.stat().st_size for file in folder.iterdir() if file.is_file() and file.name != "README.md")


def write_texts(path: Path, teacher: Path) -> Path:
    """The test rows, and texts of so many tokens made of them."""
    from transformers import AutoTokenizer

    with gzip.open(DATA / "test.tsv.gz", "rt", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    texts = [row["content"] for row in rows]
    given: dict[str, list[Any]] = {"texts": texts, "labels": [int(row["label"]) for row in rows]}
    tokenizer = AutoTokenizer.from_pretrained(teacher)
    ids = tokenizer(" ".join(texts), add_special_tokens=False)["input_ids"]
    for length in LENGTHS:  # with the two tokens that mark its ends
        cuts = [ids[start : start + length - 2] for start in range(0, OF_EACH_LENGTH * length, length)]
        given[f"of {length} tokens"] = tokenizer.batch_decode(cuts)
    path.write_text(json.dumps(given))
    return path


def peers(place: Path, teacher: Path) -> dict[str, Contestant]:
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    python = environment(place / "environment", PEERS, ["model2vec", "openvino"], beside=Path(ours))
    made = place / "peers"
    if not (made / "done").exists():
        subprocess.run([str(python), HERE / "peers" / "small_files.py", teacher, DATA, made], check=True)
    return {
        "ONNX Runtime int8": Contestant("onnxruntime", made / "int8"),
        "ONNX Runtime int8, optimised": Contestant("onnxruntime", made / "optimised-int8"),
        "OpenVINO": Contestant("openvino", made / "float", python),
        "Model2Vec": Contestant("model2vec", made / "model2vec", python),
    }


def groups_of(names: Iterable[str]) -> dict[str, list[str]]:
    """The seeds of a preset are one group."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.split(", seed")[0], []).append(name)
    return groups


def finding(found: Mapping[str, list[Any]], sizes: Mapping[str, int]) -> Finding:
    """Ratios against the teacher. Of a preset the mean over seeds, and of what is kept also the least."""
    middle = {name: {key: median_of(turns, key) for key in turns[0]} for name, turns in found.items()}
    big, figures = middle["teacher"], {"teacher_accuracy": middle["teacher"]["accuracy"]}
    for group, names in groups_of(name for name in found if name != "teacher").items():
        said = group.lower().replace(", ", "_").replace(" ", "_")
        kept = [middle[name]["accuracy"] / big["accuracy"] for name in names]
        figures |= {
            f"{said}_smaller": statistics.fmean(sizes["teacher"] / sizes[name] for name in names),
            f"{said}_faster": statistics.fmean(big["texts_ms"] / middle[name]["texts_ms"] for name in names),
            f"{said}_kept": statistics.fmean(kept),
        }
        if len(names) > 1:
            figures[f"{said}_kept_least"] = min(kept)
        for length in LENGTHS:
            ratios = [big[f"of {length} tokens_ms"] / middle[name][f"of {length} tokens_ms"] for name in names]
            figures[f"{said}_faster_at_{length}_tokens"] = statistics.fmean(ratios)
    notes = [
        f"{name}: {sizes[name] / 1e6:.2f} MB, {one['texts_ms']:.3f} ms (95th percentile {one['p95_ms']:.3f}), "
        f"{one['accuracy']:.1%} right"
        for name, one in middle.items()
    ]
    knobs = {"threads": 1, "turns": TURNS, "seeds": SEEDS}
    return Finding(figures, LIMITS, knobs, tuple(notes), each_turn(found))


def frontier(found: Mapping[str, list[Any]], sizes: Mapping[str, int]) -> Record:
    """The same as models of one Record, for the picture of size and latency against accuracy."""
    columns = {"text": "content", "label": "label"}
    arms = [_arm(group, [found[x] for x in names], sizes[names[0]]) for group, names in groups_of(found).items()]
    return Record(
        kind="bench",
        name="small_frontier",
        created=now(),
        command="python benchmarks/small.py",
        machine=machine(),
        seeds=list(range(SEEDS)),
        knobs={"threads": 1, "turns": TURNS},
        fingerprints={},
        task=TaskInfo(kind="classify", labels=("0", "1")),
        metric="accuracy",
        data=DataCard(source="../shared/data/sst2/test.tsv.gz", columns=columns, read=TEST_ROWS),
        arms=arms,
        notes=["One text at a time, one thread, tokenising included; every model in a process of its own, in turns."],
    )


def _arm(name: str, seeds: Sequence[list[Any]], size: int) -> Arm:
    middle = [{key: median_of(turns, key) for key in turns[0]} for turns in seeds]
    times = {key: statistics.fmean(one[key] for one in middle) for key in middle[0]}
    return Arm(
        name=name,
        title=TITLES.get(name, name),
        role="teacher" if name == "teacher" else "student" if name in PRESETS else "model",
        runs=[SeedResult(seed=seed, quality={"accuracy": one["accuracy"]}) for seed, one in enumerate(middle)],
        size=Size(parameters=0, parameters_without_embeddings=0, bytes_on_disk=size, bytes_in_all=size),
        speed=Speed(
            engine=name,
            threads=1,
            p50_ms=times["texts_ms"],
            p95_ms=times["p95_ms"],
            batch=1,
            sentences_per_second=1000 / times["texts_ms"],
            peak_bytes=0,
            rounds=TEST_ROWS * len(seeds[0]),
            by_length=[
                LengthSpeed(tokens=length, p50_ms=times[f"of {length} tokens_ms"], p95_ms=0.0) for length in LENGTHS
            ],
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
