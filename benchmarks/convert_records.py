"""Renames keys of committed Records to today's names, makes artifacts of arms that were only another format, and takes
folders of the machine out. Values stay.

python benchmarks/convert_records.py benchmarks/results/*.json
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

TABLES = {"places": "windows", "text": "blocks", "pairs": "parallel", "teach": "teacher_cache", "each": "columns"}
TERMS = {"patience": "pkd", "drawn": "sampled"}
TASK = {"vocabulary": "vocab_size", "watched": "metric"}
FLAGS = {rf"--{old}\.": f"--{new.replace('_', '-')}." for old, new in TABLES.items()}
CLASSES = {r"\bPatience\(": "PKD(", r"\bLanguage\(": "LanguageModeling(", r"\bTransfer\(": "MobileBERTTransfer("}
NUMBER = "number:"  # before the digits of a float, which stay as they were written
INT8 = "student-int8"
FOLDERS = {r"/work/main/": "", r"/(?:work|tmp/w)/shared/": "../shared/", r"/tmp/tmp\w+/": ""}


def renamed(table: Any, names: dict[str, str]) -> Any:
    """The table with its keys renamed."""
    if not isinstance(table, dict):
        return table
    return {names.get(key, key): value for key, value in table.items()}


def knobs(found: dict[str, Any]) -> dict[str, Any]:
    # A knob of a benchmark's own may have that name already.
    tables = {old: new for old, new in TABLES.items() if isinstance(found.get(old), dict) and new not in found}
    found = renamed(found, tables)
    if "objective" in found:
        found["objective"] = renamed(found["objective"], TERMS)
    for stage in (found.get("stages") or {}).values():
        stage["objective"] = renamed(stage.get("objective", {}), TERMS)
    if "columns" in found:
        found["columns"] = {name: knobs(column) for name, column in found["columns"].items()}
    return found


def convert(record: dict[str, Any]) -> dict[str, Any]:
    record = {**record, "knobs": knobs(record["knobs"]), "task": renamed(record["task"], TASK)}
    for arm in record["arms"]:
        for old, new in CLASSES.items():
            arm["objective"] = re.sub(old, new, arm.get("objective", ""))
        for run in arm["runs"]:
            for point in run.get("curve", []):
                point["terms"] = renamed(point.get("terms", {}), TERMS)
    for old, new in FLAGS.items():
        record["command"] = re.sub(old, new, record["command"])
    return artifacts(record)


def artifacts(record: dict[str, Any]) -> dict[str, Any]:
    """The student in int8 was an arm of a known name, compared with the arm it comes from."""
    arm = next((arm for arm in record["arms"] if arm["name"] == INT8), None)
    if arm is None:
        return record
    against = next(both for both in record["comparisons"] if both["better"] == INT8)
    (run,) = arm["runs"]
    artifact = {
        "name": INT8,
        "arm": against["than"],
        "seed": run["seed"],
        "engine": "CTranslate2",
        "precision": "int8",
        "path": INT8,
        "quality": run["quality"],
        "size": arm["size"],
        "speed": arm["speed"],
        "comparison": against,
    }
    changed = {
        "arms": [other for other in record["arms"] if other is not arm],
        "comparisons": [both for both in record["comparisons"] if both is not against],
    }
    # In the order of Record's fields.
    fields = ((key, changed.get(key, value)) for key, value in record.items())
    return {
        name: value
        for key, found in fields
        for name, value in ((key, found), *([("artifacts", [artifact])] if key == "arms" else []))
    }


def without_folders(text: str) -> str:
    for old, new in FOLDERS.items():
        text = re.sub(old, new, text)
    return text


def main() -> None:
    for path in map(Path, sys.argv[1:]):
        before = path.read_text(encoding="utf-8")
        record = convert(json.loads(before, parse_float=lambda digits: NUMBER + digits))
        written = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        written = re.sub(f'"{NUMBER}([^"]*)"', r"\1", written)
        path.write_text(without_folders(written), encoding="utf-8")


if __name__ == "__main__":
    main()
