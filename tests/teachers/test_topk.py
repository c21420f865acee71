"""What the teacher said is on disk, is found again, and is never mistaken for something else."""

import json
import os
import random
import shutil
import signal
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock

import filling
from filling import ABOUT, SAMPLED, drawns, kept, serves_the_truth, tops
from limbeck.core.errors import KnobError, LimbeckError, MismatchError
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, Want
from limbeck.teachers import topk as module
from limbeck.teachers.shards import DamagedError, from_bytes, read_shard
from limbeck.teachers.topk import Manifest, TopKCache, TopKTeacher

pytestmark = pytest.mark.slow

UIDS = np.array([3, -(2**62), 11, 6, 2**62 + 5, 4, 1000, 8])


@pytest.fixture
def filled(tmp_path):
    """A store of three shards; which shard holds which uids is known."""
    store = TopKCache(tmp_path / "store", ABOUT, write=True)
    parts = [range(10), range(10, 20), range(20, 30)]
    paths = []
    for part in parts:
        store.add(list(part), *tops(part))
        paths += sorted({*store.folder.glob("shard-*")} - {*paths})
    return store.folder, dict(zip(paths, parts, strict=True))


def test_answers_come_in_any_order_and_more_than_once(tmp_path):
    with TopKCache(tmp_path, ABOUT, write=True) as store:
        store.add(UIDS[:3], *tops(UIDS[:3]))
        store.add(UIDS[3:], *tops(UIDS[3:]))
        assert serves_the_truth(store, UIDS)
    store = TopKCache.open(tmp_path)
    assert (len(store), store.tokens) == (len(UIDS), filling.counts_of(UIDS).sum())
    assert store.lacks([5, *UIDS[:2], 7]).tolist() == [True, False, False, True]
    for seed in range(5):
        assert serves_the_truth(store, np.random.default_rng(seed).choice(UIDS, 30))
    assert serves_the_truth(store, [6]), "an example without tokens"


def test_drawn_ids_come_back_as_they_were(tmp_path):
    with TopKCache(tmp_path, SAMPLED, write=True) as store:
        store.add(UIDS[:5], *drawns(UIDS[:5]))
        store.add(UIDS[5:], *drawns(UIDS[5:]))
    store = TopKCache.open(tmp_path)
    assert len(list(tmp_path.glob("shard-*"))) == 1
    for part in (UIDS[:5], UIDS[5:]):
        counts, true = drawns(part)
        answers, found = store.get(part)
        assert found.tolist() == counts.tolist()
        most = answers.ids.shape[1]
        assert torch.equal(answers.ids, true.ids[:, :most])
        assert torch.allclose(answers.weights, true.weights[:, :most])
        assert not true.weights[:, most:].any()
        assert answers.temperature == 2.0
    back = store.get(UIDS[::-1])[0]
    assert torch.equal(back.ids[0], store.get(UIDS[-1:])[0].ids[0][: back.ids.shape[1]])


@pytest.mark.parametrize(("k", "limit"), [(50, 110), (128, 280)])
@pytest.mark.parametrize("vocabulary", [30522, 49152])
def test_a_store_with_all_that_belongs_to_it_is_small(tmp_path, k, limit, vocabulary):
    uids = np.arange(400)
    counts, top = tops(uids, k, vocabulary, counts=np.full(400, 19))  # 15 % of 128 tokens
    with TopKCache(tmp_path, ABOUT.but(k=k, vocabulary=vocabulary), write=True) as store:
        for start in range(0, 400, 40):
            tokens = slice(19 * start, 19 * (start + 40))
            store.add(uids[start : start + 40], counts[start : start + 40], top.rows(tokens))
    info = TopKCache.open(tmp_path).info()
    assert (info.examples, info.tokens, info.shards) == (400, 7600, 1)
    assert info.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert info.bytes_per_token <= limit
    assert np.array_equal(store.get(uids)[0].ids.numpy(), kept(top, k, vocabulary)[0])


def test_missing_examples_are_counted(filled):
    with pytest.raises(MismatchError, match=r"no answer for 2 of 3 examples\n.*fill it"):
        TopKCache.open(filled[0]).get([5, 77, 78])


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"k": 9}, r"another k \(8, not 9\)"),
        ({"vocabulary": 501}, "another vocabulary"),
        ({"temperature": 2.0}, "another temperature"),
        ({"kind": "sampled"}, "another kind"),
        *(
            (
                {"fingerprints": {**ABOUT.fingerprints, name: "other"}},
                f"another {name}\n.*delete .*, or give",
            )
            for name in ABOUT.fingerprints
        ),
        ({"fingerprints": {"teacher": "t", "data": "x"}}, "another data and another mask and another tokenizer"),
    ],
)
def test_a_store_of_something_else_is_refused(filled, other, said):
    for write in (False, True):
        with pytest.raises(MismatchError, match=said):
            TopKCache(filled[0], ABOUT.but(**other), write=write)


def test_notes_are_for_people_and_do_not_count(filled):
    assert len(TopKCache(filled[0], ABOUT.but(notes={"top": 8}))) == 30


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(MismatchError, match="not a teacher cache"):
        TopKCache.open(tmp_path)
    with pytest.raises(MismatchError, match="not a teacher cache"):
        TopKCache(tmp_path / "nowhere", ABOUT)
    (tmp_path / "file").write_text("")
    with pytest.raises(MismatchError, match="not a teacher cache"):
        TopKCache.open(tmp_path / "file")
    with pytest.raises(LimbeckError, match="in the way"):
        TopKCache(tmp_path / "file", ABOUT, write=True)
    (tmp_path / "index.json").write_text(json.dumps({"version": 99, "checksum": "?"}))
    with pytest.raises(MismatchError, match=r"format 99.*\n.*update"):
        TopKCache.open(tmp_path)


def test_a_damaged_index_is_refused_and_can_be_made_again(filled):
    index = filled[0] / "index.json"
    text = index.read_text()
    for damaged in ("", "[]", text[:-20], text.replace('"k": 8', '"k": 9'), text.replace('"d"', '"e"')):
        index.write_text(damaged)
        with pytest.raises(MismatchError, match=r"damaged\n.*delete this one file"):
            TopKCache.open(filled[0])
    index.unlink()
    with pytest.raises(MismatchError, match=r"shard-.* made for something else"):
        TopKCache(filled[0], ABOUT.but(k=9), write=True)
    assert not index.exists()
    assert serves_the_truth(TopKCache(filled[0], ABOUT, write=True), range(30))


def test_knobs_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(KnobError, match="no top 8"):
        TopKCache(tmp_path, ABOUT.but(vocabulary=7), write=True)
    with pytest.raises(KnobError, match="256 draws"):
        TopKCache(tmp_path, SAMPLED.but(k=256), write=True)
    with pytest.raises(KnobError, match="temperature"):
        Manifest(temperature=0.0)


def test_answers_that_do_not_fit_are_refused_and_leave_nothing(tmp_path):
    store = TopKCache(tmp_path, ABOUT, write=True)
    counts, top = tops([1, 2])
    for uids, given, answers in (
        ([1, 2, 3], counts, top),
        ([1, 2], counts + 1, top),
        ([1, 2], counts, top.first(4)),
        ([1, 2], [4, -1], top),
        ([3, 9], *drawns([3, 9])),
    ):
        with pytest.raises(MismatchError):
            store.add(uids, given, answers)
    assert not len(store)
    assert not list(tmp_path.glob("shard-*"))
    with pytest.raises(LimbeckError, match="write=True"):
        TopKCache.open(tmp_path).add([1, 2], counts, top)


def mended(folder, lost):
    store = TopKCache(folder, ABOUT, write=True)
    lacking = np.flatnonzero(store.lacks(range(30)))
    assert lacking.tolist() == list(lost)
    assert serves_the_truth(store, np.setdiff1d(range(30), lost))
    store.add(lacking, *tops(lacking))
    return serves_the_truth(TopKCache(folder, ABOUT), range(30))


@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_bit_is_found_and_costs_one_shard(filled, seed):
    folder, parts = filled
    chance = random.Random(seed)
    path, lost = chance.choice(list(parts.items()))
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    store = TopKCache(folder, ABOUT)
    assert store.damaged == [path]
    assert store.info().damaged == [path.name]
    assert path.with_suffix(".damaged").exists()
    assert mended(folder, lost)


def test_no_flipped_bit_of_a_header_goes_unnoticed(filled, tmp_path):
    path = next(iter(filled[1]))
    content = path.read_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    other = tmp_path / path.name
    for place in range(length):
        flipped = bytearray(content)
        flipped[place] ^= 1 << (place % 8)
        other.write_bytes(flipped)
        with pytest.raises(DamagedError):
            read_shard(other)


@pytest.mark.parametrize("size", [0, 5, 100, -300, -1])
def test_a_shard_that_was_cut_short_is_set_aside(filled, size):
    folder, parts = filled
    path, lost = list(parts.items())[1]
    path.write_bytes(path.read_bytes()[:size])
    assert mended(folder, lost)


def test_a_shard_that_is_gone_is_lacking(filled):
    folder, parts = filled
    path, lost = list(parts.items())[2]
    path.unlink()
    assert mended(folder, lost)


def test_shards_are_merged_and_an_example_told_twice_is_kept_once(filled):
    folder, _ = filled
    with TopKCache.open(folder, write=True) as store:
        again = list(range(15, 25))
        store.add(again, *tops(again))
    assert len(list(folder.glob("shard-*"))) == 1
    store = TopKCache.open(folder)
    assert len(store) == 30
    assert len(from_bytes(read_shard(next(folder.glob("shard-*")))).uids) == 30
    assert serves_the_truth(store, range(30))


def test_large_shards_are_left_alone(filled, monkeypatch):
    folder, parts = filled
    monkeypatch.setattr(module, "SMALL", min(int(filling.counts_of(part).sum()) for part in parts.values()))
    with TopKCache.open(folder, write=True) as store:
        for uid in [0, 11, *range(30, 40)]:
            store.add([uid], *tops([uid]))
    (merged,) = {*folder.glob("shard-*")} - {*parts}
    assert {*parts} < {*folder.glob("shard-*")}
    assert from_bytes(read_shard(merged)).uids.tolist() == list(range(30, 40)), "a large shard's are not kept twice"
    assert serves_the_truth(TopKCache.open(folder), range(40))


def test_a_reader_lives_through_the_merging_of_what_it_reads(filled):
    folder, _ = filled
    reader = TopKCache.open(folder)
    TopKCache.open(folder, write=True).close()
    assert serves_the_truth(reader, range(30))
    reader.refresh()
    assert reader.info().shards == 1
    assert serves_the_truth(reader, range(30))


def test_a_full_disk_is_explained_and_leaves_what_was_finished(filled, monkeypatch):
    folder, _ = filled

    def full(path, content):
        path.touch()
        raise OSError(28, "No space left on device")

    store = TopKCache.open(folder, write=True)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(LimbeckError, match="disk is full"):
            store.add([50], *tops([50]))
        with pytest.raises(LimbeckError, match="disk is full"):
            store.close()
    assert not list(folder.glob("*.part"))
    assert store.lacks([50]).all()
    assert serves_the_truth(TopKCache.open(folder), range(30))


def test_half_written_files_are_swept_when_their_writer_must_be_gone(filled):
    old, new = (filled[0] / f".shard-{name}.part" for name in ("old", "new"))
    for part in (old, new):
        part.write_bytes(b"half")
    os.utime(old, (0, 0))
    TopKCache.open(filled[0], write=True)
    assert not old.exists()
    assert new.exists()


def test_reading_holds_what_is_asked_for_and_no_more(tmp_path):
    uids = np.arange(300)
    counts, top = tops(uids, 50, 30522, counts=np.full(300, 100))
    with TopKCache(tmp_path, ABOUT.but(k=50, vocabulary=30522), write=True) as store:
        store.add(uids, counts, top)
    assert store.bytes_on_disk > 3_000_000
    TopKCache.open(tmp_path).get([7])  # imports are not counted
    tracemalloc.start()
    store = TopKCache.open(tmp_path)
    store.get([5, 250])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def asking(uids, asked):
    length = 8
    rows = torch.arange(length) < torch.as_tensor(asked)[:, None]
    labels = torch.zeros(len(uids), length, dtype=torch.int64)
    task = TaskInfo(kind="mask-fill", vocab_size=500)
    return Batch(task=task, uids=torch.as_tensor(uids), labels=labels, has_label=rows, predicted=rows)


def test_a_teacher_answers_from_the_store(filled, tmp_path):
    teacher = TopKTeacher(TopKCache.open(filled[0]))
    assert teacher.has == Want.TOP
    uids = [4, 29, 13, 6]
    trace = teacher.answer(asking(uids, filling.counts_of(uids)))
    assert trace.has == Want.TOP
    assert np.array_equal(trace.top.ids.numpy(), kept(tops(uids)[1])[0])
    with pytest.raises(MismatchError, match=r"1 of 4 examples ask about another number.*\n.*another mask"):
        teacher.answer(asking(uids, filling.counts_of(uids) + np.array([0, 1, 0, 0])))
    with TopKCache(tmp_path / "sampled", SAMPLED, write=True) as store:
        store.add(uids, *drawns(uids))
    teacher = TopKTeacher(store)
    assert teacher.has == teacher.answer(asking(uids, filling.counts_of(uids))).has == Want.SAMPLED


def said_in(told: Path) -> set[int]:
    whole_lines = told.read_text().split("\n")[:-1] if told.exists() else []
    return {int(uid) for line in whole_lines for uid in line.split()}


def until_more_is_told(told: Path, before: int = 0) -> None:
    end = time.monotonic() + 60
    while len(said_in(told)) <= before:
        assert time.monotonic() < end, "the writer does not come on"
        time.sleep(0.002)


def test_two_processes_fill_one_store_while_a_third_reads(tmp_path):
    folder, both = tmp_path / "store", [tmp_path / "one", tmp_path / "other"]
    writers = [filling.writer(folder, 0, 240, both[0]), filling.writer(folder, 120, 360, both[1])]
    for told_by_one in both:
        until_more_is_told(told_by_one)
    reader, seen = TopKCache.open(folder), 0
    end = time.monotonic() + 60
    while len(told := set.union(*map(said_in, both))) < 360:
        assert time.monotonic() < end
        reader.refresh()
        there = np.flatnonzero(~reader.lacks(range(360)))
        assert told <= set(there.tolist())
        assert len(there) >= seen
        seen = len(there)
        assert serves_the_truth(reader, np.random.default_rng(seen).permutation(there))
    assert [one.wait() for one in writers] == [0, 0]
    store = TopKCache.open(folder)
    assert serves_the_truth(store, range(360))
    assert not store.damaged
    assert sum(store._tokens(shard) < 300 for shard in store.shards.values()) <= 1


def test_a_killed_writer_loses_the_batch_in_hand_at_most(tmp_path):
    chance = random.Random(0)
    folder, told, copy = tmp_path / "store", tmp_path / "told", tmp_path / "copy"
    rounds, batch, many = 15, 4, 100_000
    for kills in range(1, rounds + 1):
        before = len(said_in(told))
        writer = filling.writer(folder, 0, many, told)
        if kills % 5:  # every fifth may die while it opens the store
            until_more_is_told(told, before)
        time.sleep(chance.uniform(0, 0.1))
        writer.kill()
        assert writer.wait() == -signal.SIGKILL
        if not (folder / "index.json").exists():
            continue
        shutil.copytree(folder, copy)  # what the next writer finds is not touched by this look at it
        store = TopKCache(copy, ABOUT)
        there = np.flatnonzero(~store.lacks(range(many)))
        assert not store.damaged
        assert said_in(told) <= set(there.tolist())
        assert len(there) <= len(said_in(told)) + batch * kills, "a batch is on disk before it is told"
        assert serves_the_truth(store, there)
        shutil.rmtree(copy)
    last = max(said_in(told)) + 20
    with TopKCache(folder, ABOUT, write=True) as store:
        lacking = np.flatnonzero(store.lacks(range(last)))
        assert len(lacking) >= 19 - batch
        store.add(lacking, *tops(lacking))
    assert serves_the_truth(TopKCache.open(folder), range(last))
    store = TopKCache.open(folder)
    assert sum(store._tokens(shard) < module.SMALL for shard in store.shards.values()) == 1


@pytest.mark.parametrize("how", ["made", "merged"])
def test_whoever_makes_or_merges_a_store_waits_for_the_lock(filled, tmp_path, how):
    folder = tmp_path / "new" if how == "made" else filled[0]
    folder.mkdir(exist_ok=True)
    store = TopKCache(folder, ABOUT, write=True) if how == "merged" else None
    before = sorted(path.name for path in folder.iterdir())
    with ThreadPoolExecutor() as pool:
        with FileLock(folder / ".lock"):
            waiting = pool.submit(store.close if store else lambda: TopKCache(folder, ABOUT, write=True))
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.4)
            assert sorted({*(path.name for path in folder.iterdir())} - {".lock"}) == [
                name for name in before if name != ".lock"
            ]
        waiting.result(timeout=30)
    assert len(list(folder.glob("shard-*"))) == {"made": 0, "merged": 1}[how]
    assert (folder / "index.json").exists()
