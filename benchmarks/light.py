"""Answers without torch: the size of an environment with the runtime alone, and how soon a process there answers.

    python benchmarks/light.py

The first run makes the environment (.bench/light) by `pip install ./runtime`. The model is MiniLM-L6 with a head, as
int8 ONNX; a small student's file is a tenth of it and there sooner.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from common import HERE, Finding, Limit, each_turn, environment, finish, flags, median_of, turn_by_turn
from limbeck import export
from limbeck.data.sources.demo import demo_model
from story import WORK

PLACE = WORK / "light"
TEXT = "a warm and funny film"
HEAVY = ("torch", "transformers", "limbeck")
TOLD = f"""
import json, runpy, sys
sys.argv = ["limbeck_runtime", sys.argv[1], {TEXT!r}]
try:
    runpy.run_module("limbeck_runtime", run_name="__main__")
except SystemExit:
    pass
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
"""
LIGHT, OURS = "limbeck_runtime alone", "limbeck predict"


def main() -> int:
    args = flags((__doc__ or "").splitlines()[0]).parse_args()
    turns = 2 if args.quick else 11
    folder, python = exported(), environment(PLACE / "environment", [str(HERE.parent / "runtime")], ["limbeck_runtime"])
    ours = Path(sys.executable).with_name("limbeck")
    commands = {LIGHT: [python, "-m", "limbeck_runtime", folder, TEXT], OURS: [ours, "predict", folder, TEXT]}

    def measure(name: str) -> dict[str, Any]:
        began = time.perf_counter()
        ended = subprocess.run([str(word) for word in commands[name]], capture_output=True, text=True, check=True)
        seconds = time.perf_counter() - began
        if "LABEL_" not in ended.stdout:
            raise SystemExit(f"{name} says {ended.stdout!r}, which is no answer")
        return {"seconds": seconds}

    for name in commands:  # the first run compiles bytecode and fills the file cache
        measure(name)
    found = turn_by_turn(list(commands), turns, measure)
    told = subprocess.run([str(python), "-c", TOLD, str(folder)], capture_output=True, text=True, check=True).stdout
    heavy = json.loads(told.splitlines()[-1])
    light, whole = (bytes_of(one) for one in (PLACE / "environment", Path(sys.prefix)))
    figures = {
        "seconds_until_the_first_answer_without_limbeck": median_of(found[LIGHT], "seconds"),
        "seconds_until_the_first_answer": median_of(found[OURS], "seconds"),
        "heavy_packages_imported": float(len(heavy)),
        "megabytes_of_the_light_environment": light / 1e6,
        "megabytes_of_the_whole_environment": whole / 1e6,
        "environment_smaller": whole / light,
    }
    limits = (
        Limit("seconds_until_the_first_answer_without_limbeck", at_most=1),
        Limit("seconds_until_the_first_answer", at_most=1),
        Limit("heavy_packages_imported", at_most=0),
        Limit("megabytes_of_the_light_environment", at_most=250),
    )
    notes = (
        "median wall time of whole processes, in turns, after one of each that does not count; the file has "
        f"{(folder / 'model.onnx').stat().st_size / 1e6:.1f} MB",
        "bytes of installed packages, without pip and what Python itself has; the whole one is that of `make setup`",
    )
    return finish("light", Finding(figures, limits, {"turns": turns}, notes, each_turn(found)), args)


def exported() -> Path:
    """Random as its head is, it takes the same time."""
    out = PLACE / "onnx-int8"
    if not out.exists():
        from transformers import AutoModelForSequenceClassification, AutoTokenizer, set_seed

        set_seed(0)
        model = AutoModelForSequenceClassification.from_pretrained(demo_model())
        export(model, to="onnx-int8", out=out, tokenizer=AutoTokenizer.from_pretrained(demo_model()))
    return out


def bytes_of(environment: Path) -> int:
    """Of what is installed there, without pip."""
    places = [one for place in environment.glob("lib/*/site-packages") for one in place.iterdir()]
    files = [
        file for one in places if not one.name.startswith("pip") for file in (one.rglob("*") if one.is_dir() else [one])
    ]
    return sum(file.stat().st_size for file in files if file.is_file() and not file.is_symlink())


if __name__ == "__main__":
    sys.exit(main())
