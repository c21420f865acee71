"""What all three stores promise: nothing lost, nothing mistaken, read where nothing may be written."""

import os
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock

import filling
from limbeck.core.errors import LimbeckError
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, Teacher, Trace, Want
from limbeck.engines.base import Engine, Hypothesis
from limbeck.teachers.logits import LogitsCache
from limbeck.teachers.texts import TextCache
from limbeck.teachers.topk import TopKCache

TASK = TaskInfo(kind="classify", labels=("a", "b"))
UIDS = np.arange(40)


class Known(Teacher):
    """Logits that follow from the uid."""

    has = Want.LOGITS

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def answer(self, batch: Batch) -> Trace:
        time.sleep(self.seconds)
        return Trace(logits=torch.stack([batch.uids.float().sin(), batch.uids.float().cos()], 1))


class Upper(Engine):
    name = "upper"

    def translate(self, sources, beam=1, nbest=1):
        return [[Hypothesis(source.upper(), -len(source) / 7)] for source in sources]


def batches(uids, size=4):
    for start in range(0, len(uids), size):
        some = torch.as_tensor(uids[start : start + size])
        yield Batch(TASK, some, torch.zeros(len(some)), torch.zeros(len(some), dtype=torch.bool))


def text_of(uid):
    return f"text number {uid}"


class Logits:
    def open(self, folder, write=True):
        return LogitsCache(folder, {"teacher": "t"})

    def fill(self, store, uids, seconds=0.0):
        store.fill(Known(seconds), batches(uids))

    def serves_the_truth(self, store, uids):
        (batch,) = batches(uids, len(uids))
        return torch.equal(store.teacher().answer(batch).logits, Known().answer(batch).logits)


class TopK:
    def open(self, folder, write=True):
        return TopKCache(folder, filling.ABOUT, write=write)

    def fill(self, store, uids, seconds=0.0):
        for start in range(0, len(uids), 4):
            time.sleep(seconds)
            store.add(uids[start : start + 4], *filling.tops(uids[start : start + 4]))
        store.close()

    def serves_the_truth(self, store, uids):
        return filling.serves_the_truth(store, uids)


class Texts:
    def open(self, folder, write=True):
        return TextCache(folder, {"teacher": "t"})

    def fill(self, store, uids, seconds=0.0):
        engine = Upper()
        engine.at_once = 4
        store.fill(engine, [text_of(uid) for uid in uids], uids, on_share=lambda share: time.sleep(seconds))

    def serves_the_truth(self, store, uids):
        return all(store.get(uid, text_of(uid)) == Upper().translate([text_of(uid)])[0] for uid in uids)


STORES = {"logits": Logits(), "topk": TopK(), "texts": Texts()}


@pytest.fixture(params=STORES)
def name(request):
    return request.param


@pytest.fixture
def kind(name):
    return STORES[name]


def shards(folder):
    return sorted(path for path in folder.glob("shard-*") if path.suffix != ".damaged")


def writer(*words):
    return filling.writer(*words, script=__file__)


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "the writer does not come on"
        time.sleep(0.002)


def test_what_is_kept_is_served_and_only_that(tmp_path, kind):
    store = kind.open(tmp_path)
    assert store.folder == tmp_path
    assert store.lacks(UIDS).tolist() == [True] * 40
    kind.fill(store, UIDS[:20])
    for found in (store, kind.open(tmp_path)):
        assert found.lacks(UIDS).tolist() == [False] * 20 + [True] * 20
        assert found.damaged == []
        assert kind.serves_the_truth(found, UIDS[19::-1].copy())


@pytest.mark.slow
def test_processes_that_fill_one_folder_at_once_lose_nothing(tmp_path, name, kind):
    both = [writer(name, tmp_path / "store", first, first + 28) for first in (0, 12)]
    assert [one.wait() for one in both] == [0, 0]
    store = kind.open(tmp_path / "store")
    assert not store.lacks(UIDS).any()
    assert not store.damaged
    assert kind.serves_the_truth(store, UIDS)


def test_a_killed_writer_loses_the_batch_in_hand_at_most(tmp_path, name, kind):
    folder = tmp_path / "store"
    child = writer(name, folder, 0, 4000)
    until(lambda: len(shards(folder)) >= 3)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    written = len(shards(folder))
    store = kind.open(folder)
    assert (~store.lacks(np.arange(4000))).sum() == 4 * written
    assert not store.damaged
    there = np.flatnonzero(~store.lacks(np.arange(4000)))
    assert kind.serves_the_truth(store, there)


@pytest.mark.parametrize("which", [0, 1, -1], ids=["first", "second", "last"])
def test_a_flipped_byte_is_set_aside_and_refilled(tmp_path, kind, which):
    for some in (UIDS[:10], UIDS[10:20], UIDS[20:]):
        store = kind.open(tmp_path)
        kind.fill(store, some)
    if kind is STORES["topk"]:  # it merged them
        for path in shards(tmp_path):
            path.unlink()
        store = kind.open(tmp_path)
        for some in (UIDS[:10], UIDS[10:20], UIDS[20:]):
            store.add(some, *filling.tops(some))
    shard = shards(tmp_path)[which]
    content = bytearray(shard.read_bytes())
    content[-10] ^= 1
    shard.write_bytes(content)
    store = kind.open(tmp_path)
    assert store.damaged == [shard]
    assert shard.with_suffix(".damaged").exists()
    lost = UIDS[store.lacks(UIDS)]
    assert 0 < len(lost) < 40
    kind.fill(store, lost)
    for found in (store, kind.open(tmp_path)):
        assert not found.lacks(UIDS).any()
        assert kind.serves_the_truth(found, UIDS)


def test_others_see_what_was_written_since(tmp_path, kind):
    reader, store = kind.open(tmp_path), kind.open(tmp_path)
    kind.fill(store, UIDS)
    assert reader.lacks(UIDS).all()
    reader.refresh()
    assert kind.serves_the_truth(reader, UIDS)


def test_of_two_answers_the_older_is_served(tmp_path):
    cache = LogitsCache(tmp_path, {"teacher": "t"})
    cache.fill(Known(), batches(UIDS))

    class Other(Known):
        def answer(self, batch):
            return Trace(logits=super().answer(batch).logits + 1)

    for path in shards(tmp_path):
        content = path.read_bytes()
        path.rename(tmp_path / "hidden")
        LogitsCache(tmp_path, {"teacher": "t"}).fill(Other(), batches(UIDS))
        path.write_bytes(content)
    assert len(shards(tmp_path)) == 2
    assert STORES["logits"].serves_the_truth(LogitsCache(tmp_path, {"teacher": "t"}), UIDS)


@pytest.fixture
def read_only():
    """A folder that may be read but not written, also by the superuser, who is somebody else meanwhile."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "store"
        folder.mkdir()

        def close():
            for path in (Path(place), folder):
                path.chmod(0o755)
            folder.chmod(0o555)
            if not os.geteuid():
                os.seteuid(65534)

        yield folder, close
        if not os.getuid():
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs Unix")
def test_a_read_only_folder_is_read(read_only, kind):
    folder, close = read_only
    for some in (UIDS[:20], UIDS[20:]):
        kind.fill(kind.open(folder), some)
    damaged = shards(folder)[0]
    (folder / ".old.part").touch()
    os.utime(folder / ".old.part", (0, 0))
    everything = kind.open(folder)
    assert kind.serves_the_truth(everything, UIDS)
    close()
    assert kind.serves_the_truth(kind.open(folder, write=False), UIDS)
    assert kind.serves_the_truth(kind.open(folder), UIDS)
    with pytest.raises(LimbeckError, match="no permission"):
        kind.fill(kind.open(folder), UIDS + 100)
    os.seteuid(os.getuid())
    damaged.write_bytes(damaged.read_bytes()[:-1])
    close()
    store = kind.open(folder, write=False)
    assert store.damaged == [damaged]
    assert damaged.exists()
    store.refresh()
    assert store.damaged == [damaged]


def test_only_the_main_process_writes(tmp_path, kind, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    store = kind.open(tmp_path / "store")
    kind.fill(store, UIDS)
    assert not (tmp_path / "store").exists()
    monkeypatch.setenv("RANK", "0")
    kind.fill(kind.open(tmp_path / "store"), UIDS)
    monkeypatch.setenv("RANK", "1")
    store = kind.open(tmp_path / "store")
    assert kind.serves_the_truth(store, UIDS)
    shard = shards(tmp_path / "store")[0]
    shard.write_bytes(shard.read_bytes()[:-1])
    before = {path.name for path in (tmp_path / "store").iterdir()}
    assert kind.open(tmp_path / "store").damaged == [shard]
    kind.fill(kind.open(tmp_path / "store"), UIDS)
    assert {path.name for path in (tmp_path / "store").iterdir()} == before


def test_whoever_makes_a_folder_waits_for_the_lock(tmp_path, kind):
    with ThreadPoolExecutor() as pool:
        with FileLock(tmp_path / ".lock"):
            waiting = pool.submit(kind.open, tmp_path)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.4)
            assert not (tmp_path / "index.json").exists()
        assert waiting.result(timeout=30).lacks(UIDS).all()
    assert [path.name for path in tmp_path.iterdir()] == ["index.json"]


def test_whoever_merges_waits_for_the_lock(tmp_path):
    store = TopKCache(tmp_path, filling.ABOUT, write=True)
    for some in (UIDS[:10], UIDS[10:]):
        store.add(some, *filling.tops(some))
    with FileLock(tmp_path / ".lock"):
        child = writer("topk", tmp_path, 100, 104)
        until(lambda: len(shards(tmp_path)) == 3)
        time.sleep(0.3)
        assert len(shards(tmp_path)) == 3, "it merged what is locked"
    assert child.wait() == 0
    assert len(shards(tmp_path)) == 1


def test_the_disk_a_fill_takes_is_known_before(tmp_path):
    texts = TextCache(tmp_path / "texts", {})
    sources = [f"{'word ' * (number % 30)}{number}" for number in range(500)]
    uids = np.arange(500) + 2**62
    stated = texts.estimate(sources, uids)
    texts.fill(Upper(), sources, uids)
    on_disk = sum(path.stat().st_size for path in shards(tmp_path / "texts"))
    assert stated == pytest.approx(on_disk, rel=0.1)
    assert texts.estimate(sources, uids) == 0
    uids = np.arange(1000)
    for manifest, answers in ((filling.ABOUT, filling.tops), (filling.SAMPLED, filling.drawns)):
        cache = TopKCache(tmp_path / manifest.kind, manifest, write=True)
        counts, given = answers(uids)
        stated, most = cache.estimate(len(uids), counts.sum(), given), cache.estimate(len(uids), counts.sum())
        cache.add(uids, counts, given)
        on_disk = sum(path.stat().st_size for path in shards(tmp_path / manifest.kind))
        assert stated == pytest.approx(on_disk, rel=0.1)
        assert most >= stated


if __name__ == "__main__":
    name, folder, first, last = sys.argv[1:]
    STORES[name].fill(STORES[name].open(Path(folder)), np.arange(int(first), int(last)), seconds=0.02)
