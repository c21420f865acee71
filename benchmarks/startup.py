"""How soon Limbeck answers: `--help`, a misspelt file name, the first line of a run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import Finding, Limit, each_turn, finish, flags, median_of, turn_by_turn
from limbeck.data.sources.demo import demo_model

HEAVY = ("torch", "transformers", "datasets", "sklearn", "scipy")
LIMBECK = str(Path(sys.executable).with_name("limbeck"))
HELP, PASS = "limbeck --help", "python -c pass"
MISSPELT, FIRST_LINE = "limbeck distill of a misspelt file", "limbeck distill"
# Asks for help in this very process, then tells which of the heavy packages came with it.
IMPORTED = f"""
import json, sys
from limbeck.cli import main
sys.argv = ["limbeck", "--help"]
try:
    main()
except SystemExit:
    print("\\n" + json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
"""


def commands(place: Path) -> dict[str, list[str]]:
    """A model and a file that are there, so that a run begins; and the same with a file that is not."""
    (place / "reviews.csv").write_text("text,label\n" + "a lovely film,good\na dull film,bad\n" * 50, encoding="utf-8")
    distill = [LIMBECK, "distill", "--teacher", str(demo_model()), "--data"]
    return {
        HELP: [LIMBECK, "--help"],
        PASS: [sys.executable, "-c", "pass"],
        MISSPELT: [*distill, str(place / "reviews.cvs"), "--out", str(place / "misspelt")],
        FIRST_LINE: [*distill, str(place / "reviews.csv"), "--out", str(place / "run")],
    }


def timed(command: list[str], code: int) -> dict[str, float]:
    """A whole child process that ends with `code`."""
    start, before = time.perf_counter(), os.times()
    ended = subprocess.run(command, capture_output=True, text=True)
    after = os.times()
    if ended.returncode != code:
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr[-3000:]}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"seconds": time.perf_counter() - start, "cpu_seconds": cpu}


def until_first_line(command: list[str]) -> dict[str, float]:
    """Until a child process says anything; then it is stopped."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        seconds = time.perf_counter() - start
        child.kill()
    if not line.strip() or "→" in line:
        raise SystemExit(f"{' '.join(command)} says {line!r} first, which is no line of a run that has begun")
    return {"seconds": seconds}


def imported() -> list[str]:
    said = subprocess.run([sys.executable, "-c", IMPORTED], check=True, capture_output=True, text=True).stdout
    return list(json.loads(said.splitlines()[-1]))


def main() -> int:
    args = flags(__doc__ or "").parse_args()
    turns = 3 if args.quick else 20
    with tempfile.TemporaryDirectory(prefix="limbeck-startup-") as place:
        every = commands(Path(place))

        def measure(name: str) -> dict[str, float]:
            if name == FIRST_LINE:
                shutil.rmtree(Path(place) / "run", ignore_errors=True)  # else it would be a run to resume
                return until_first_line(every[name])
            return timed(every[name], code=2 if name == MISSPELT else 0)

        for name in every:  # the first run compiles bytecode and fills the file cache
            measure(name)
        found = turn_by_turn(list(every), turns, measure)
    seconds = {name: median_of(found[name], "seconds") for name in every}
    heavy = imported()
    finding = Finding(
        figures={
            "seconds_of_limbeck_help": seconds[HELP],
            "pass_seconds": seconds[PASS],
            "help_over_pass": seconds[HELP] / seconds[PASS],
            "cpu_seconds_until_a_misspelt_file_is_refused": median_of(found[MISSPELT], "cpu_seconds"),
            "seconds_until_the_first_line_of_distill": seconds[FIRST_LINE],
            "heavy_packages_imported": float(len(heavy)),
        },
        limits=(
            Limit("seconds_of_limbeck_help", at_most=0.4),
            Limit("cpu_seconds_until_a_misspelt_file_is_refused", at_most=1),
            Limit("seconds_until_the_first_line_of_distill", at_most=1),
            Limit("heavy_packages_imported", at_most=0),
        ),
        knobs={"turns": turns},
        notes=(
            "median wall time of child processes, of a refused file CPU time, in turns, after one of each that does "
            "not count",
            f"of {', '.join(HEAVY)}, `limbeck --help` imports {', '.join(heavy) or 'none'}",
        ),
        seconds=each_turn(found),
    )
    return finish("startup", finding, args)


if __name__ == "__main__":
    sys.exit(main())
