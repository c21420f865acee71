"""What was written stays written, belongs to its source, and is asked for once."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from limbeck.core.errors import LimbeckError, MismatchError
from limbeck.engines.base import Engine, Hypothesis
from limbeck.engines.black_boxes import Command
from limbeck.teachers.texts import TextCache
from tiny_sources import make_sources

ABOUT = {"beam": 2, "nbest": 2, "engine": "test", "fingerprints": {"teacher": "abc", "data": "def"}}
SOURCES = [*dict.fromkeys(make_sources(60, seed=9, longest=9)), "", "grüße \ud800 \u2028"]


def uid_of(source):
    digest = blake2b(source.encode("utf-8", "surrogatepass"), digest_size=8, person=b"source").digest()
    return int.from_bytes(digest, "big") >> 1


UIDS = np.array([uid_of(source) for source in SOURCES], np.int64)


class Upper(Engine):
    """Writes capitals, and remembers what it was asked; after `good` calls it breaks."""

    name = "test"

    def __init__(self, good=10**9, error=None):
        self.predicted, self.good = [], good
        self.error = error or RuntimeError("out of memory")

    def translate(self, sources, beam=1, nbest=1):
        if len(self.predicted) == self.good:
            raise self.error
        self.predicted.append(list(sources))
        return [
            [Hypothesis(s.upper(), -len(s) / 3), Hypothesis(s.title(), math.nan, cut=True)][:nbest] for s in sources
        ]


def complete(folder, translator, sources=SOURCES, uids=UIDS, portion=8, about=ABOUT):
    kept, shares = TextCache(folder, about), []
    kept.fill(translator, sources, uids, 2, 2, shares.append, portion)
    return kept, shares


def serves_the_truth(kept, sources=SOURCES):
    for source in sources:
        first, second = kept.get(uid_of(source), source)
        assert first == Hypothesis(source.upper(), -len(source) / 3)
        assert (second.text, second.cut) == (source.title(), True)
        assert math.isnan(second.log_p)
    return True


def test_every_source_is_asked_once_longest_first_and_served_again(tmp_path):
    twice, uids = [*SOURCES, *SOURCES[:20]], np.concatenate([UIDS, UIDS[:20]])
    teacher = Upper()
    kept, shares = complete(tmp_path / "t", teacher, twice, uids)
    asked = [source for portion in teacher.predicted for source in portion]
    assert sorted(asked) == sorted(SOURCES)
    assert [len(source) for source in asked] == sorted(map(len, SOURCES), reverse=True)
    assert {len(portion) for portion in teacher.predicted[:-1]} == {8}
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert shares == sorted(shares)
    assert shares[1] == pytest.approx(sum(len(s) + 1 for s in asked[:8]) / sum(len(s) + 1 for s in asked))
    for store in (kept, TextCache(tmp_path / "t", ABOUT)):
        assert len(store) == len(SOURCES)
        assert serves_the_truth(store)
        assert store.lacks([1, *UIDS[:2]]).tolist() == [True, False, False]
    again, shares = complete(tmp_path / "t", Upper(good=0))
    assert shares == [1.0]
    assert len(again) == len(SOURCES)


def test_the_lines_are_as_they_are_described(tmp_path):
    complete(tmp_path, Upper(), ["ab c"], UIDS[:1])
    (shard,) = tmp_path.glob("*.jsonl")
    row = json.loads(shard.read_text(encoding="ascii"))
    source = blake2b(b"ab c", digest_size=8).hexdigest()
    assert row == {"uid": int(UIDS[0]), "source": source, "written": [["AB C", -4 / 3], ["Ab C", None, True]]}


def test_an_empty_list_is_complete(tmp_path):
    kept, shares = complete(tmp_path, Upper(good=0), [], [])
    assert (len(kept), shares) == (0, [1.0])


def test_rows_never_shift(tmp_path):
    kept, _ = complete(tmp_path, Upper())
    with pytest.raises(MismatchError, match="is of another text than"):
        kept.get(UIDS[0], SOURCES[1])
    with pytest.raises(MismatchError, match="holds no translation of uid 5"):
        kept.get(5, "new")
    with pytest.raises(MismatchError, match="is of another text than"):
        complete(tmp_path, Upper(), [*SOURCES[1:], SOURCES[0]], UIDS)
    with pytest.raises(MismatchError, match="uid 7 stands for two sources"):
        complete(tmp_path, Upper(), ["a", "b"], [7, 7])
    with pytest.raises(MismatchError, match="2 sources have 1 uids"):
        complete(tmp_path, Upper(), ["a", "b"], [7])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beam": 5}, "beam (2, not 5)"),
        ({"nbest": 1, "engine": "x"}, "engine (test, not x) and another nbest (2, not 1)"),
        ({"fingerprints": {"teacher": "abd", "data": "def"}}, "teacher"),
        ({"length_penalty": 1.0}, "length_penalty (None, not 1.0)"),
    ],
)
def test_translations_made_otherwise_are_refused_by_name(tmp_path, change, message):
    complete(tmp_path, Upper())
    with pytest.raises(MismatchError) as caught:
        TextCache(tmp_path, ABOUT | change)
    assert caught.value.problem.endswith(f"was made with another {message}")


def test_a_damaged_index_is_named_and_shards_of_another_making_are_never_served(tmp_path):
    complete(tmp_path, Upper())
    index = tmp_path / "index.json"
    index.write_text(index.read_text()[:20])
    with pytest.raises(MismatchError, match=r"index\.json is damaged"):
        TextCache(tmp_path, ABOUT)
    index.unlink()
    assert len(TextCache(tmp_path, ABOUT)) == len(SOURCES)
    index.unlink()
    with pytest.raises(MismatchError, match="made for something else"):
        TextCache(tmp_path, ABOUT | {"beam": 9})
    assert len(list(tmp_path.glob("*.jsonl"))) == 8


@pytest.mark.parametrize("harm", ["torn", "flipped", "emptied"])
def test_a_damaged_shard_is_set_aside_and_its_sources_are_asked_again(tmp_path, harm):
    complete(tmp_path, Upper())
    shard = sorted(tmp_path.glob("*.jsonl"))[3]
    content = shard.read_bytes()
    flipped = content.replace(b"E", b"F", 1)
    shard.write_bytes({"torn": content[: len(content) // 2], "flipped": flipped, "emptied": b""}[harm])
    lost = content.count(b"\n")
    kept = TextCache(tmp_path, ABOUT)
    assert kept.damaged == [shard]
    assert kept.lacks(UIDS).sum() == lost
    teacher = Upper()
    kept, _ = complete(tmp_path, teacher)
    assert sum(map(len, teacher.predicted)) == lost
    assert serves_the_truth(kept)
    assert TextCache(tmp_path, ABOUT).damaged == []


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), LimbeckError("it fell over", "lift it")])
def test_a_teacher_that_breaks_off_leaves_what_it_wrote(tmp_path, error):
    with pytest.raises(LimbeckError, match=r"after 24 of 6\d sources") as caught:
        complete(tmp_path, Upper(good=3, error=error))
    assert str(error.args[0]).split("\n")[0] in caught.value.problem
    assert str(tmp_path) in caught.value.remedy
    assert "--resume" in caught.value.remedy
    assert len(TextCache(tmp_path, ABOUT)) == 24
    teacher = Upper()
    kept, shares = complete(tmp_path, teacher)
    assert sum(map(len, teacher.predicted)) == len(SOURCES) - 24
    assert shares[0] > 0.3
    assert serves_the_truth(kept)


def test_a_teacher_that_leaves_some_out_is_refused(tmp_path):
    class Lazy(Upper):
        def translate(self, sources, beam=1, nbest=1):
            return [[] if s == "" else [Hypothesis(s, 0.0)] for s in sources]

    with pytest.raises(LimbeckError, match="left sources without a translation"):
        complete(tmp_path, Lazy())


def test_a_command_that_crashes_loses_no_more_than_one_start(tmp_path):
    body = (
        "import sys\nfor n, line in enumerate(sys.stdin): print(line.strip() if 'stop' not in line else sys.exit(1))\n"
    )
    (tmp_path / "teacher.py").write_text(body)
    sources = [f"word {number}" for number in range(600)]
    sources[599] = "stop"  # the shortest comes last
    kept = TextCache(tmp_path / "t", ABOUT)
    with pytest.raises(LimbeckError, match="after 512 of 600 sources"):
        kept.fill(Command(f"{sys.executable} {tmp_path}/teacher.py"), sources, np.arange(600), portion=4096)
    assert len(TextCache(tmp_path / "t", ABOUT)) == 512


SLOW = """
import sys, time
sys.path[:0] = [{tests!r}, {here!r}]
import test_texts as t

class Slow(t.Upper):
    def translate(self, *asked):
        time.sleep(0.05)
        return super().translate(*asked)

t.complete({folder!r}, Slow(), portion=2)
"""


def slow_writer(folder):
    here = Path(__file__).parent
    code = SLOW.format(tests=str(here.parent), here=str(here), folder=str(folder))
    return subprocess.Popen([sys.executable, "-c", code])


def test_a_kill_loses_at_most_the_portion_in_hand(tmp_path):
    writer = slow_writer(tmp_path / "t")
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "t").glob("*.jsonl"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(writer.pid, signal.SIGKILL)
    assert writer.wait() == -signal.SIGKILL, "it was killed before it was done"
    shards = len(list((tmp_path / "t").glob("*.jsonl")))
    kept = TextCache(tmp_path / "t", ABOUT)
    assert len(kept) == 2 * shards < len(SOURCES)
    teacher = Upper()
    kept, _ = complete(tmp_path / "t", teacher)
    assert sum(map(len, teacher.predicted)) == len(SOURCES) - 2 * shards
    assert serves_the_truth(kept)


def test_writers_beside_each_other(tmp_path):
    writers = [slow_writer(tmp_path / "t") for _ in range(2)]
    assert [writer.wait() for writer in writers] == [0, 0]
    kept = TextCache(tmp_path / "t", ABOUT)
    assert kept.damaged == []
    assert len(kept) == len(SOURCES)
    assert serves_the_truth(kept)


def test_old_half_written_files_are_swept_and_new_ones_left(tmp_path):
    TextCache(tmp_path, ABOUT)
    old, new = tmp_path / ".shard-1.part", tmp_path / ".shard-2.part"
    old.write_bytes(b"{")
    os.utime(old, (1, 1))
    new.write_bytes(b"{")
    TextCache(tmp_path, ABOUT)
    assert (old.exists(), new.exists()) == (False, True)


def test_whoever_opens_the_folder_waits_for_the_lock(tmp_path):
    with ThreadPoolExecutor() as pool:
        with FileLock(tmp_path / ".lock"):
            waiting = pool.submit(TextCache, tmp_path, ABOUT)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.4)
            assert not (tmp_path / "index.json").exists()
        assert len(waiting.result(timeout=30)) == 0
    assert (tmp_path / "index.json").exists()
