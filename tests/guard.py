"""What every task and verb gives, stored, so that a refactoring shows what it changed.

    python tests/guard.py store [TASK …]    before: writes .bench/guard.json, whole or of these tasks
    python tests/guard.py [TASK …]          after: runs the same again; says "same" or lists differences, and exits 1

Every run is tiny, seeded and goes through the command line; guard_runs.py has them. What is looked at are the files it
leaves, its Record, its exit code and its words. Times, dates, machine and versions are left out. Weights are compared
bit for bit, and another processor rounds otherwise: so the baseline is of this machine, and not in git. Differences
that are meant stand in the file --expected, a glob of TASK/RUN/PATH per line, and why: `*/record/notes  # shorter now`.
"""

from __future__ import annotations

import _thread
import argparse
import contextlib
import hashlib
import io
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any

from guard_runs import RUN_FILES, TASKS, USUAL, Task

TESTS = Path(__file__).resolve().parent
RESUMED = ", resumed"
STORED = TESTS.parent / ".bench" / "guard.json"
# What another day or machine changes: parts of paths in a Record, and words in sentences.
PASSING = re.compile(
    r"record/(created|command|machine|seconds|checksum)\b.*|.*/(seconds|sentences_per_second|p50_ms|p95_ms|p99_ms|low_ms|high_ms|load_ms|by_length|peak_bytes|busy)"
)
SPELLED = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.]*(Z|\+[\d:]+|,? UTC)?"), "DATE"),
    (re.compile(r"\b\d+:\d\d(:\d\d)?\b"), "TIME"),
    (re.compile(r"\b[\d.,]+ ?(ms|s|seconds?|min|minutes?|h|hours?)\b"), "TIME"),
    (re.compile(r"\b[\d.,]+ [kMGT]?B (are )?free\b"), "SPACE"),
)

Flat = dict[str, Any]  # path → string, number or list


def command(name: str, task: Task) -> list[str]:
    verb, *own = shlex.split(task.runs[name])
    usual = shlex.split(f"{USUAL[verb]} {task.usual if verb in ('train', 'distill', 'compare') else ''}")
    folder = f"resumed/{name.removesuffix(RESUMED)}" if name.endswith(RESUMED) else name
    out = [] if "--info" in own else ["--out", f"out/{folder}"]
    return [verb, *usual, *own, *out]


def write_run(path: str, knobs: Flat) -> None:
    """A run file with a line for each knob."""
    lines = (f"{knob.replace('/', '.')} = {json.dumps(value)}\n" for knob, value in knobs.items())
    Path(path).write_text("".join(lines), encoding="utf-8")


def spelled(text: str) -> str:
    """A sentence without what another day changes."""
    text = text.replace(os.getcwd(), "").strip()
    for pattern, word in SPELLED:
        text = pattern.sub(word, text)
    return text


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves by path. Things with a name lie under it; other lists of things become columns."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flatten(inner, f"{path}/{key}")
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        known = next((key for key in ("name", "label", "seed", "arm") if key in value[0]), "")
        if known:
            yield f"{path}/*", [item[known] for item in value]
            for item in value:
                yield from flatten(item, f"{path}/{item[known]}")
        else:
            rows = [dict(flatten(item)) for item in value]
            for column in dict.fromkeys(itertools.chain(*rows)):
                yield f"{path}{column}", [row.get(column) for row in rows]
    elif isinstance(value, list):
        yield path, [leaf(item) for item in value]
    else:
        yield path, leaf(value)


def leaf(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) else spelled(value) if isinstance(value, str) else value


def hashed(*parts: bytes | str) -> str:
    data = (part.encode() if isinstance(part, str) else part for part in parts)
    return hashlib.sha256(b"\0".join(data)).hexdigest()[:24]


def tensors(files: Iterable[Path]) -> dict[str, Any]:
    from safetensors import safe_open

    found = {}
    for file in files:
        with safe_open(file, "pt") as opened:
            found |= {name: opened.get_tensor(name).contiguous() for name in opened.keys()}  # noqa: SIM118
    return dict(sorted(found.items()))


def summed(tensor: Any) -> tuple[str, str, bytes]:
    import torch

    kind, shape = str(tensor.dtype).removeprefix("torch."), str(list(tensor.shape))
    return kind, shape, tensor.flatten().view(torch.uint8).numpy().tobytes()


def contents(out: Path) -> Iterator[tuple[str, Any]]:
    """What lies in a run's folder: weights of models whole, other arrays one by one, the rest by its bytes."""
    names = []
    for path in sorted(out.rglob("*")):
        if not path.is_file():
            continue
        name = re.sub(r"[0-9a-f]{8,}", "HASH", str(path.relative_to(out)))
        names.append(name + "~" * names.count(name))
        name = names[-1]
        if path.name == "config.json":
            about = json.loads(path.read_text(encoding="utf-8"))
            about = {key: about[key] for key in about if key not in ("transformers_version", "_name_or_path")}
            yield name, hashed(json.dumps(about, sort_keys=True))
            if parts := tensors(path.parent.glob("*.safetensors")):
                whole = hashed(*itertools.chain(*((key, *summed(tensor)) for key, tensor in parts.items())))
                yield f"{name.removesuffix('config.json')}weights", f"{whole}, {len(parts)} tensors"
        elif path.suffix == ".safetensors" and not (path.parent / "config.json").exists():
            for array, tensor in tensors([path]).items():
                kind, shape, data = summed(tensor)
                many = tensor.double() if tensor.numel() else tensor.new_zeros(1).double()
                about = f"{many.mean():.6g}, {many.min():.6g} … {many.max():.6g}"
                yield f"{name}/{array}", f"{hashed(data)} {kind}{shape} {about}"
        elif path.suffix in (".jsonl", ".bin") or path.name == "tokenizer.json":
            yield name, hashed(path.read_bytes())
        elif path.suffix == ".json" and path.parent.parent == out / "arms":
            kept = json.loads(path.read_text(encoding="utf-8")).items()
            yield from ((f"{name}/{key}", leaf(value)) for key, value in kept if isinstance(value, int | float))
    yield "*", sorted(names)


def snapshot(out: Path, code: int, printed: str, told: str) -> Flat:
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    stages = [found[1] for line in lines if (found := re.match(r"\[ *\d+%\] (.*?): \d+%", line))]
    flat: Flat = {"exit": code, "stages": [spelled(stage) for stage in dict.fromkeys(stages)]}
    flat["said"] = [spelled(line) for line in lines if not re.match(r"\[ *\d+%\] ", line)]
    record = out / "record.json"
    if record.is_file():
        found = flatten(json.loads(record.read_text(encoding="utf-8")), "record")
        flat |= {path: value for path, value in found if not PASSING.fullmatch(path)}
    else:
        flat["printed"] = [re.sub(r"\s+", " ", spelled(line)) for line in printed.splitlines() if line.strip()]
    flat |= {f"files/{name}": value for name, value in contents(out)}
    return flat


def limbeck(words: list[str]) -> tuple[int, str, str]:
    """Exit code, output and errors of `limbeck …` in this process."""
    from limbeck.cli import main

    sys.argv, out, err, code = ["limbeck", *words], io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1 if end.code else 0
        except BaseException as error:
            code = 1
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return code, out.getvalue(), err.getvalue()


def interrupted(words: list[str], out: Path) -> Flat:
    """A run that is stopped as by Ctrl-C when its first model is done."""
    pattern = "arms/*/result.json"

    def watch() -> None:
        while not ended and not list(out.glob(pattern)):
            time.sleep(0.002)
        if not ended:
            _thread.interrupt_main()

    ended: list[bool] = []
    watcher = threading.Thread(target=watch)
    watcher.start()
    code, _, told = limbeck(words)
    ended.append(True)
    watcher.join()
    return {
        "stopped/exit": code,
        "stopped/said": [spelled(line) for line in told.strip().splitlines()[-1:]],
        "stopped/models": len(list(out.glob(pattern))),
    }


def run_once(name: str, task: Task, unbroken: Flat) -> Flat:
    words = command(name, task)
    out = Path(words[words.index("--out") + 1] if "--out" in words else "nothing")
    if not name.endswith(RESUMED):
        return snapshot(out, *limbeck(words))
    stopped = interrupted(words, out)
    flat = snapshot(out, *limbeck([*words, "--resume"]))
    one, two = ({path: found[path] for path in found if "/" in path} for found in (unbroken, flat))
    unlike = [line for path, line in differences(one, two) if path != "record/knobs/out"]
    return {"exit": flat["exit"], "said": flat["said"], **stopped, "unlike the unbroken run": unlike}


def run_task(task: Task) -> dict[str, Flat]:
    """All runs of a task, in the working folder."""
    task.make()
    for file, knobs in RUN_FILES.items():
        write_run(file, knobs)
    found: dict[str, Flat] = {}
    for name in task.runs:
        begin = time.monotonic()
        try:
            found[name] = run_once(name, task, found.get(name.removesuffix(RESUMED), {}))
        except Exception as error:
            found[name] = {"exit": f"the guard itself failed: {error!r}"}
        found[name]["time"] = time.monotonic() - begin
    return found


def in_child(name: str, folder: Path) -> dict[str, Flat]:
    """A task in a process of its own, which has all that is slow to import from this one."""
    answer = folder / "answer.json"
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.chdir(folder)
            answer.write_text(json.dumps(run_task(TASKS[name])))
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    os.waitpid(pid, 0)
    return json.loads(answer.read_text()) if answer.exists() else {}


def differences(old: Flat, new: Flat) -> Iterator[tuple[str, str]]:
    """Path and line of each; what one side lacks altogether is one."""
    ways = [{path[: found.end()] for path in flat for found in re.finditer(r"[^/]+", path)} for flat in (old, new)]
    lacking: Counter[tuple[str, bool]] = Counter()
    for path in sorted({**old, **new}):
        if path not in old or path not in new:
            begins = [path[: found.end()] for found in re.finditer(r"[^/]+", path)]
            lacking[next((way for way in begins if way not in ways[path in old]), path), path in old] += 1
        elif old[path] != new[path]:
            yield path, f"{path}: {unlike(old[path], new[path])}"
    for (way, gone), count in lacking.items():
        what = short((old if gone else new)[way]) if way in (old if gone else new) else f"{count} values"
        yield way, f"{way}: {f'{what} → –' if gone else f'– → {what}'}"


def unlike(old: Any, new: Any) -> str:
    if isinstance(old, list) and isinstance(new, list):
        if all(isinstance(item, str) for item in [*old, *new]) and {*old} != {*new}:
            gone = [f"\n        - {item}" for item in old if item not in new]
            return "".join([*gone, *(f"\n        + {item}" for item in new if item not in old)])
        places = [place for place, (a, b) in enumerate(zip(old, new, strict=False)) if a != b]
        if places and len(old) == len(new):
            return f"{len(places)} of {len(old)}; [{places[0]}]: {short(old[places[0]])} → {short(new[places[0]])}"
    pairs = zip(old, new, strict=False) if isinstance(old, str) and isinstance(new, str) else ()
    same = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
    return f"{short(old, same)} → {short(new, same)}"


def short(value: Any, start: int = 0) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) < 160 else f"…{text[max(0, start - 40) :][:160]}…"


def compare(task: str, old: dict[str, Flat], new: dict[str, Flat], expected: list[str]) -> int:
    """Says how each run's results differ; how many differences were not expected."""
    count = 0
    for run in {**old, **new}:
        took = f"  ({new[run].pop('time'):.1f} s)" if run in new else ""
        if run not in old or run not in new:
            unalike = [("", "a new run" if run in new else "this run is gone")]
        else:
            unalike = list(differences(old[run], new[run]))
        meant = [any(fnmatch(f"{task}/{run}/{path}", glob) for glob in expected) for path, _ in unalike]
        count += meant.count(False)
        word = "same" if not unalike else "expected" if all(meant) else "DIFFERS"
        print(f"{task}/{run}: {word}{took}")
        for (_, line), fine in zip(unalike, meant, strict=True):
            print(f"    {'expected: ' if fine else ''}{line}")
    return count


def nested(flat: Flat) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *way, last = path.split("/")
        place = tree
        for part in way:
            place = place.setdefault(part, {})
        place[last] = value
    return tree


def unnested(tree: dict[str, Any], path: str = "") -> Flat:
    flat: Flat = {}
    for key, value in tree.items():
        flat |= unnested(value, f"{path}{key}/") if isinstance(value, dict) else {path + key: value}
    return flat


def dumped(tree: Any) -> str:
    """JSON with a line for each leaf."""
    if not isinstance(tree, dict):
        return json.dumps(tree, ensure_ascii=False)
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {dumped(value)}" for key, value in tree.items()) + "\n}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="[store] [TASK …]", help=f"tasks: {', '.join(TASKS)}")
    parser.add_argument("--expected", type=Path, help="globs of differences that are meant")
    parser.add_argument("--keep", type=Path, help="leave what the runs wrote in this folder")
    given = parser.parse_args()
    storing, chosen = "store" in given.words, [word for word in given.words if word != "store"] or list(TASKS)
    if unknown := set(chosen) - set(TASKS):
        parser.error(f"there is no task {', '.join(unknown)}; there are {', '.join(TASKS)}")
    lines = given.expected.read_text(encoding="utf-8").splitlines() if given.expected else []
    expected = [glob for line in lines if (glob := line.split("#")[0].strip())]
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "HF_HUB_OFFLINE"), "1")
    os.environ |= {"PYTHONPATH": str(TESTS.parent / "src"), "COLUMNS": "200", "TOKENIZERS_PARALLELISM": "false"}
    sys.path[:0] = [str(TESTS.parent / "src"), str(TESTS)]
    for slow in ("datasets", "sklearn.metrics", "transformers.trainer", "transformers.models.bert.modeling_bert"):
        import_module(slow)
    import_module("transformers.utils.logging").disable_progress_bar()
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    folder, count = given.keep or Path(tempfile.mkdtemp(prefix="guard-")), 0
    for name in chosen:
        begin = time.monotonic()
        (folder / name).mkdir(parents=True)
        found = in_child(name, folder / name)
        print(f"# {name}: {len(found)} runs, {time.monotonic() - begin:.0f} s", flush=True)
        old = {run: unnested(tree) for run, tree in stored.get(name, {}).items()}
        count += compare(name, old, found, expected)
        if storing and found:
            stored[name] = {run: nested(flat) for run, flat in found.items()}
    if storing:
        STORED.parent.mkdir(exist_ok=True)
        STORED.write_text(dumped({name: stored[name] for name in TASKS if name in stored}) + "\n", encoding="utf-8")
    if not given.keep:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{count} differences that are not expected" if count else "all the same")
    return 0 if storing else int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
