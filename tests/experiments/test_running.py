"""Parts of an experiment as child processes: in their order, several at a time, finished ones never again."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from limbeck.core.errors import LimbeckError
from limbeck.core.orphan import PARENT
from limbeck.experiments.experiment import Part
from limbeck.experiments.running import at_once, run_parts

# A job as `limbeck` runs one: it logs its life, shows progress, and leaves a Record. It takes PYTHONPATH's place of it.
JOB = """
import os, pathlib, sys, time
verb, *words = sys.argv[1:]
out = pathlib.Path(words[words.index("--out") + 1])
log = out.parent.parent / "log" if out.parent.name.startswith("seed") else out.parent / "log"
def tell(what):
    with log.open("a") as file:
        file.write(f"{what} {out.name} {os.environ.get('OMP_NUM_THREADS', '-')}\\n")
tell("begin")
print("[ 50%] training: 50%", file=sys.stderr, flush=True)
if verb == "fail":
    print("limbeck: the file is empty\\n  → give rows", file=sys.stderr)
    sys.exit(2)
if verb == "sleep":
    time.sleep(60)
time.sleep(float(words[0]))
out.mkdir(parents=True, exist_ok=True)
(out / "record.json").write_text("{}")
tell("end")
"""


class Heard:
    def __init__(self):
        self.shares, self.said, self.notes = [], [], []

    def plan(self, stages):
        self.planned = stages

    def at(self, stage, done, note=""):
        self.shares.append(done)
        self.notes.append(note)

    def say(self, message):
        self.said.append(message)


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """A package limbeck for children alone, whose verbs are the ones above; the folder for the parts."""
    package = tmp_path / "package" / "limbeck"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(JOB)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    out = tmp_path / "out"
    out.mkdir()
    return out


def lines(out):
    return [line.split() for line in (out / "log").read_text().splitlines()]


def part(name, verb="work", seconds=0.0, after=()):
    return Part(name, verb, (seconds,), after)


def test_a_part_begins_when_those_it_needs_are_finished(jobs):
    heard = Heard()
    run_parts([part("a"), part("b", after=("a",)), part("c", after=("b",))], jobs, "chain", 2, heard)
    assert [line[:2] for line in lines(jobs)] == [[w, n] for n in "abc" for w in ("begin", "end")]
    assert {line[2] for line in lines(jobs)} == {"-"}, "alone, a part has all cores"
    assert heard.shares[-1] == 1.0
    assert any(0 < share < 1 for share in heard.shares), "progress of a child is the parent's"


def test_several_run_at_a_time_with_one_thread_each(jobs):
    heard = Heard()
    run_parts([part(name, seconds=0.6) for name in "abc"], jobs, "wide", 2, heard)
    assert [line[0] for line in lines(jobs)][:2] == ["begin", "begin"]
    assert lines(jobs)[2][0] == "end", "two at a time, not three"
    assert {line[2] for line in lines(jobs)} == {"1"}
    assert any(", " in note for note in heard.notes), "each is named"


def test_what_is_finished_is_not_done_again(jobs):
    parts = [part("a"), part("b", after=("a",))]
    run_parts(parts, jobs, "chain", 1, Heard())
    before = lines(jobs)
    (jobs / "b" / "record.json").unlink()
    heard = Heard()
    run_parts(parts, jobs, "chain", 1, heard)
    assert [line[:2] for line in lines(jobs)[len(before) :]] == [["begin", "b"], ["end", "b"]]
    assert "1 of 2 parts are finished already" in heard.said


def test_a_failure_is_told_and_the_work_of_others_is_kept(jobs):
    parts = [part("good", seconds=0.5), part("bad", "fail"), part("later", after=("good",))]
    with pytest.raises(LimbeckError, match=r"(?s)'bad' failed with code 2: the file is empty.*→ give rows"):
        run_parts(parts, jobs, "mixed", 2, Heard())
    assert (jobs / "good" / "record.json").exists()
    assert not (jobs / "later").exists(), "nothing new begins"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_children_end_with_their_parent(jobs, tmp_path, how):
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(f"""
        import os, signal, sys
        from pathlib import Path
        signal.signal(signal.SIGINT, signal.default_int_handler)  # also where pytest runs in the background
        from limbeck.core.progress import Silent
        from limbeck.experiments.experiment import Part
        from limbeck.experiments.running import run_parts
        os.environ["PYTHONPATH"] = {str(tmp_path / "package")!r}
        run_parts([Part("a", "sleep", (0,)), Part("b", "sleep", (0,))], Path({str(jobs)!r}), "x", 2, Silent())
        """)
    )
    source = os.path.dirname(os.path.dirname(sys.modules["limbeck"].__file__))
    parent = subprocess.Popen(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": source}, stderr=subprocess.PIPE
    )
    while not (jobs / "log").exists() or len(lines(jobs)) < 2:
        assert parent.poll() is None, parent.communicate()
    parent.send_signal(how)
    parent.communicate(timeout=30)
    assert parent.returncode != 0
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert str(jobs) not in "".join(line for line in found.splitlines() if "sleep" in line)


def test_width_counts_parts_of_one_depth():
    chain = [part("a"), part("b", after=("a",))]
    assert at_once(chain) == 1
    assert at_once([*chain, part("c"), part("d", after=("c",))]) == 2
    assert at_once([]) == 0


WATCHED = """
import os, time
from limbeck.core.orphan import PARENT, end_with_parent
named = PARENT in os.environ
end_with_parent()
assert PARENT not in os.environ
print(os.getpid(), named, flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    open("ended", "w").close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a process there keeps the id of a parent that is gone")
@pytest.mark.parametrize("handler", ["default_int_handler", "SIG_IGN"])  # the other: `nohup limbeck reproduce … &`
def test_a_part_ends_when_the_experiment_is_killed(tmp_path, handler):
    code = textwrap.dedent(f"""
        import os, signal, subprocess, sys
        signal.signal(signal.SIGINT, signal.{handler})
        from limbeck.core.orphan import PARENT
        child = subprocess.Popen([sys.executable, "-c", {WATCHED!r}], env={{**os.environ, PARENT: str(os.getpid())}})
        child.wait()
    """)
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline().split()[1] == "True"
    time.sleep(1.5)
    assert not (tmp_path / "ended").exists(), "its parent lives"
    parent.kill()
    parent.wait()
    until = time.monotonic() + 20
    while not (tmp_path / "ended").exists() and time.monotonic() < until:
        time.sleep(0.1)
    parent.stdout.close()
    assert (tmp_path / "ended").exists()


def test_a_part_is_told_who_waits_for_it(jobs, monkeypatch):
    seen = {}
    popen = subprocess.Popen

    def noted(*arguments, env, **more):
        seen.update(env)
        return popen(*arguments, env=env, **more)

    monkeypatch.setattr(subprocess, "Popen", noted)
    run_parts([part("a")], jobs, "told", 1, Heard())
    assert seen[PARENT] == str(os.getpid())
