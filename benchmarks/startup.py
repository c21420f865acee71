"""How long `limbeck --help` takes, beside a Python that does nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from common import Finding, Limit, each_turn, finish, flags, median_of, turn_by_turn

HEAVY = ("torch", "transformers", "datasets", "sklearn", "scipy")
COMMANDS = {
    "limbeck --help": [str(Path(sys.executable).with_name("limbeck")), "--help"],
    "python -c pass": [sys.executable, "-c", "pass"],
}
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


def wall(name: str) -> dict[str, float]:
    start = time.perf_counter()
    subprocess.run(COMMANDS[name], check=True, capture_output=True)
    return {"seconds": time.perf_counter() - start}


def imported() -> list[str]:
    said = subprocess.run([sys.executable, "-c", IMPORTED], check=True, capture_output=True, text=True).stdout
    return list(json.loads(said.splitlines()[-1]))


def main() -> int:
    args = flags(__doc__ or "").parse_args()
    turns = 3 if args.quick else 20
    for name in COMMANDS:  # the first run compiles bytecode and fills the file cache
        wall(name)
    found = turn_by_turn(list(COMMANDS), turns, wall)
    seconds_of_limbeck_help, pass_seconds = (median_of(found[name], "seconds") for name in COMMANDS)
    heavy = imported()
    finding = Finding(
        figures={
            "seconds_of_limbeck_help": seconds_of_limbeck_help,
            "pass_seconds": pass_seconds,
            "help_over_pass": seconds_of_limbeck_help / pass_seconds,
            "heavy_packages_imported": float(len(heavy)),
        },
        limits=(Limit("seconds_of_limbeck_help", at_most=0.4), Limit("heavy_packages_imported", at_most=0)),
        knobs={"turns": turns},
        notes=(
            "median wall time of whole child processes, in turns, after one of each that does not count",
            f"of {', '.join(HEAVY)}, `limbeck --help` imports {', '.join(heavy) or 'none'}",
        ),
        seconds=each_turn(found),
    )
    return finish("startup", finding, args)


if __name__ == "__main__":
    sys.exit(main())
