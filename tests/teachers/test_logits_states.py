"""States of chosen layers, and answers about places: what comes from the disk is what the network shows."""

import json
import signal
import sys
import time
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from transformers import BertConfig, BertForQuestionAnswering, BertForSequenceClassification, BertForTokenClassification

from forked import Forked
from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.forward import NOWHERE
from limbeck.core.record import Shape
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, NoTeacher, Request, Trace, Want
from limbeck.teachers import logits as module
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.logits import CACHEABLE_STATES, LogitsCache
from limbeck.teachers.shards import Ragged, from_bytes, read_shard, to_bytes

pytestmark = pytest.mark.slow

PRINTS = {"teacher": "t"}
WIDTH, LAYERS = 16, 3
LABELS = ("a", "b", "c")
SHAPE = Shape(architecture="bert", layers=LAYERS, hidden=WIDTH, heads=2, feed_forward=32)
MODELS = {
    "classify": BertForSequenceClassification,
    "multilabel": BertForSequenceClassification,
    "tag": BertForTokenClassification,
    "answer": BertForQuestionAnswering,
}
EVERYTHING = Request(CACHEABLE_STATES, hidden=(0, 2, 3), pooled=(1, 3))
UIDS = list(range(-20, 20))


def open_shard(path):
    return from_bytes(read_shard(path))


def task_of(kind):
    return TaskInfo(kind=kind, labels=() if kind == "answer" else LABELS)


def live_of(kind, ask):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        num_labels=2 if kind == "answer" else len(LABELS),
    )
    return LiveTeacher(MODELS[kind](config), ask)


def text_of(uid):
    """Token ids that follow from the uid, and the places that are asked: of some texts none."""
    chance = np.random.default_rng(uid % 2**32)
    ids = chance.integers(1, 50, chance.integers(2, 20))
    return ids, (chance.random(len(ids)) < 0.5) & (uid % 7 > 0)


def batch_of(uids, kind="classify", left=False, more=0):
    """A batch padded to its longest text, or `more`. Positions are counted from each text's first token."""
    texts = [text_of(uid) for uid in uids]
    length = max(len(ids) for ids, _ in texts) + more
    ids, mask, predicted = (torch.zeros(len(uids), length, dtype=torch.int64) for _ in range(3))
    for row, (tokens, places) in enumerate(texts):
        here = slice(length - len(tokens), length) if left else slice(len(tokens))
        ids[row, here], mask[row, here], predicted[row, here] = (
            torch.from_numpy(tokens),
            1,
            torch.from_numpy(places).long(),
        )
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}
    task, rows = task_of(kind), torch.zeros(len(uids))
    places = {"predicted": predicted.bool()} if task.in_windows else {}
    return Batch(task, torch.tensor(uids), rows, rows.bool(), inputs, **places)


def batches_of(uids, size=8, **how):
    return [batch_of(uids[start : start + size], **how) for start in range(0, len(uids), size)]


def filled(folder, kind="classify", ask=EVERYTHING, uids=UIDS, rows_per_shard=16, **how):
    cache = LogitsCache(folder, PRINTS, ask, **how)
    cache.fill(live_of(kind, ask), batches_of(uids, kind=kind), rows_per_shard)
    return cache


def shown(live: LiveTeacher, uids, kind="classify", left=False, more=0) -> Trace:
    """A head that reads the first place of a batch finds padding there on the left: its logits are of the right."""
    trace = live.answer(batch_of(uids, kind, left, more))
    return trace if task_of(kind).in_windows else replace(trace, logits=live.answer(batch_of(uids, kind)).logits)


def assert_same(found: Trace, live: Trace, batch: Batch, tolerance=1e-3, of_logits=1e-6):
    """All of it, at the tokens that are there; at padding the cache shows zeros."""
    assert found.has == live.has
    assert found.logits.shape == live.logits.shape
    assert torch.allclose(found.logits, live.logits, atol=of_logits, rtol=0)
    present = batch.inputs["attention_mask"].bool()
    for name in ("hidden", "pooled"):
        ours, theirs = getattr(found, name), getattr(live, name)
        assert [layer.shape for layer in ours] == [layer.shape for layer in theirs]
        for one, other in zip(ours, theirs, strict=True):
            chosen = (one[present], other[present]) if one.dim() == 3 else (one, other)
            assert torch.allclose(*chosen, atol=tolerance, rtol=tolerance)
            assert one.dtype == torch.float32
            if one.dim() == 3:
                assert not one[~present].any()


@pytest.mark.parametrize("kind", MODELS)
def test_the_same_batches_get_the_same_answers_bit_for_bit(tmp_path, kind):
    live = live_of(kind, EVERYTHING)
    filled(tmp_path, kind)
    cached = LogitsCache(tmp_path, PRINTS, EVERYTHING).teacher()
    for batch in batches_of(UIDS, kind=kind):
        found, true = cached.answer(batch), live.answer(batch)
        assert torch.equal(found.logits, true.logits)
        assert torch.equal(found.pooled[1], true.pooled[1].half().float())
        assert_same(found, true, batch)
        assert len(found.hidden) - 1 == LAYERS
        assert not found.hidden[1].numel()


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_any_order_any_batch_and_any_padding_get_the_answers_of_their_texts(tmp_path, kind, left):
    live, cached = live_of(kind, EVERYTHING), filled(tmp_path, kind).teacher()
    chance = np.random.default_rng(0)
    for size, more in ((1, 0), (3, 2), (11, 5), (40, 0)):
        uids = [*chance.permutation(UIDS)[:size].tolist(), 3, 3]
        batch = batch_of(uids, kind, left, more)
        assert_same(cached.answer(batch), shown(live, uids, kind, left, more), batch)


def test_a_place_where_no_answer_can_lie_says_so(tmp_path):
    batch = batch_of(UIDS[:5], "answer", more=3)
    logits = filled(tmp_path, "answer").teacher().answer(batch).logits.unflatten(0, (5, 2))
    for row, asked in zip(logits, batch.predicted, strict=True):
        assert (row[:, ~asked] == NOWHERE).all()
        assert (row[:, asked] > NOWHERE).all()


@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_a_cache_of_one_pool_does_not_serve_another(tmp_path, pool):
    ask = Request(Want.LOGITS | Want.POOLED, pooled=(2,), pool=pool)
    other = Request(Want.LOGITS | Want.POOLED, pooled=(2,), pool="mean" if pool == "cls" else "cls")
    batch = batch_of(UIDS[:9], left=True)
    true = shown(live_of("classify", ask), UIDS[:9], left=True)
    assert_same(filled(tmp_path, ask=ask).teacher().answer(batch), true, batch)
    cache = LogitsCache(tmp_path, PRINTS, other)
    assert cache.lacks(torch.tensor(UIDS)).all()
    with pytest.raises(MismatchError, match="pool the states of a text differently"):
        cache.fill(live_of("classify", ask), [batch])
    cache.fill(live_of("classify", other), batches_of(UIDS))
    assert_same(cache.teacher().answer(batch), shown(live_of("classify", other), UIDS[:9], left=True), batch)


def test_what_a_larger_ask_lacks_is_asked_and_nothing_is_written_twice(tmp_path):
    small, large = Request(), Request(CACHEABLE_STATES, hidden=(1, 3), pooled=(2,))
    larger = Request(CACHEABLE_STATES, hidden=(1, 2, 3), pooled=(2,))
    for ask in (small, large, larger):
        cache = LogitsCache(tmp_path, PRINTS, ask)
        assert cache.lacks(torch.tensor(UIDS)).all()
        assert not len(cache.uids)
        with pytest.raises(MismatchError, match="no answer"):
            cache.teacher().answer(batch_of(UIDS[:2]))
        cache.fill(live_of("classify", ask), batches_of(UIDS))
        assert cache.uids.tolist() == UIDS
    kept = [set(open_shard(path).parts) for path in sorted(tmp_path.glob("shard-*"))]
    assert kept == [{"logits"}, {"pooled.cls.2", "hidden.1", "hidden.3"}, {"hidden.2"}]
    batch = batch_of(UIDS[::-3])
    for ask in (small, large, larger):
        live = live_of("classify", ask).answer(batch)
        assert_same(LogitsCache(tmp_path, PRINTS, ask).teacher().answer(batch), live, batch)
        assert_same(cache.teacher(ask).answer(batch), live, batch)
    with pytest.raises(MismatchError, match=r"no answer \(hidden.9\)"):
        cache.teacher(Request(CACHEABLE_STATES, hidden=(9,))).answer(batch)


def test_an_example_is_there_only_if_all_of_it_is(tmp_path):
    some, ask = UIDS[:10], Request(CACHEABLE_STATES, hidden=(2,))
    filled(tmp_path, ask=Request())
    cache = filled(tmp_path, ask=ask, uids=some)
    assert cache.uids.tolist() == some
    assert (~cache.lacks(torch.tensor(UIDS[::-1]))).tolist() == [uid in some for uid in UIDS[::-1]]
    cache.fill(live_of("classify", ask), batches_of(UIDS[5:15]))
    assert cache.uids.tolist() == UIDS[:15]
    batch = batch_of(UIDS[14:0:-1])
    assert_same(cache.teacher().answer(batch), live_of("classify", ask).answer(batch), batch)


def test_an_example_that_was_written_twice_counts_once(tmp_path):
    filled(tmp_path, uids=UIDS[:10])
    cache = filled(tmp_path, uids=UIDS[5:15])
    assert cache.uids.tolist() == UIDS[:15]
    batch = batch_of(UIDS[:15])
    assert_same(cache.teacher().answer(batch), live_of("classify", EVERYTHING).answer(batch), batch)


def test_a_damaged_shard_of_one_layer_costs_this_layer_only(tmp_path):
    filled(tmp_path, ask=Request(), rows_per_shard=100)
    ask = Request(CACHEABLE_STATES, hidden=(2,))
    filled(tmp_path, ask=ask)
    shard = sorted(tmp_path.glob("shard-*"))[2]
    lost = open_shard(shard).uids.tolist()
    whole = bytearray(shard.read_bytes())
    whole[-100] ^= 4
    shard.write_bytes(whole)
    cache = LogitsCache(tmp_path, PRINTS, ask)
    assert cache.damaged == [shard]
    assert [uid for uid in UIDS if uid not in cache.uids.tolist()] == sorted(lost)
    assert not LogitsCache(tmp_path, PRINTS).lacks(torch.tensor(UIDS)).any()
    cache.fill(live_of("classify", ask), [batch_of(lost)])
    batch = batch_of(UIDS)
    assert_same(cache.teacher().answer(batch), live_of("classify", ask).answer(batch), batch)


def test_states_of_another_precision_are_asked_again(tmp_path):
    filled(tmp_path)
    cache = LogitsCache(tmp_path, PRINTS, EVERYTHING, dtype="float32")
    assert cache.lacks(torch.tensor(UIDS)).all()
    live = live_of("classify", EVERYTHING)
    cache.fill(live, batches_of(UIDS))
    batch = batches_of(UIDS)[1]
    assert_same(cache.teacher().answer(batch), live.answer(batch), batch, tolerance=0)


def test_states_that_float16_cannot_hold_are_refused(tmp_path):
    live, ask = live_of("classify", EVERYTHING), Request(CACHEABLE_STATES, hidden=(0,))
    live.request, live.has = ask, ask.want
    with torch.no_grad():
        live.model.bert.embeddings.LayerNorm.weight.fill_(1e5)
    with pytest.raises(KnobError, match=r"layer 0 exceed 65504.*\n.*float32"):
        LogitsCache(tmp_path / "16", PRINTS, ask).fill(live, batches_of(UIDS))
    assert not list((tmp_path / "16").glob("shard-*"))
    cache = LogitsCache(tmp_path / "32", PRINTS, ask, dtype="float32")
    cache.fill(live, batches_of(UIDS))
    assert cache.teacher().answer(batch_of(UIDS)).hidden[0].abs().max() > 65504


class NanAtPadding(LiveTeacher):
    def answer(self, batch):
        shown = super().answer(batch)
        padding = ~batch.inputs["attention_mask"].bool()
        hidden = tuple(x.masked_fill(padding[..., None], float("nan")) if x.numel() else x for x in shown.hidden)
        return Trace(logits=shown.logits, hidden=hidden, pooled=shown.pooled)


def test_what_stands_at_padding_is_not_kept(tmp_path):
    live = live_of("classify", EVERYTHING)
    cache = LogitsCache(tmp_path, PRINTS, EVERYTHING)
    cache.fill(NanAtPadding(live.model, EVERYTHING), batches_of(UIDS))
    batch = batch_of(UIDS[::2], more=4)
    assert_same(cache.teacher().answer(batch), live.answer(batch), batch)
    tokens = sum(len(text_of(uid)[0]) for uid in UIDS)
    assert open_shard(next(tmp_path.glob("shard-*"))).parts["hidden.2"].shape == (tokens, WIDTH)


def test_texts_cut_into_other_tokens_are_refused_where_it_matters(tmp_path):
    cached = filled(tmp_path / "text").teacher()
    batch = batch_of(UIDS[:4])
    batch.inputs["attention_mask"][1, 0] = 0
    with pytest.raises(MismatchError, match=r"1 of 4 texts have another number of tokens.*\n.*tokenizer"):
        cached.answer(batch)
    pooled = LogitsCache(tmp_path / "text", PRINTS, Request(CACHEABLE_STATES, pooled=(3,))).teacher()
    assert torch.equal(pooled.answer(batch).pooled[3], cached.answer(batch_of(UIDS[:4])).pooled[3])
    for kind in ("tag", "answer"):
        places = filled(tmp_path / kind, kind, Request()).teacher()
        other = batch_of(UIDS[:4], kind)
        other.predicted[2] = ~other.predicted[2] | (torch.arange(len(other.predicted[2])) == 0)
        with pytest.raises(MismatchError, match="another number of tokens"):
            places.answer(other)


def test_what_cannot_be_kept_is_refused_before_anything_is_asked(tmp_path):
    for want in (Want.ATTENTION, Want.QUERIES, Want.KEYS, Want.VALUES, Want.TOP, Want.SAMPLED):
        with pytest.raises(MismatchError, match=rf"wants logits, {want}|wants {want}"):
            LogitsCache(tmp_path, PRINTS, Request(Want.LOGITS | want, heads=(1,)))
    assert not list(tmp_path.iterdir())
    words = TaskInfo(kind="mask-fill", vocab_size=50)
    batch = batch_of(UIDS[:2])
    with pytest.raises(MismatchError, match="keeps no words"):
        LogitsCache(tmp_path, PRINTS).fill(NoTeacher(), [Batch(words, batch.uids, batch.labels, batch.has_label)])
    with pytest.raises(MismatchError, match="0 rows of logits"):
        LogitsCache(tmp_path, PRINTS).fill(NoTeacher(), [batch])
    for short in (Request(), Request(CACHEABLE_STATES, hidden=(1,))):
        with pytest.raises(MismatchError, match="does not show layer 2"):
            LogitsCache(tmp_path, PRINTS, Request(CACHEABLE_STATES, hidden=(2,))).fill(
                live_of("classify", short), [batch]
            )


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    "ask",
    [Request(), Request(CACHEABLE_STATES, hidden=(1,)), Request(CACHEABLE_STATES, pooled=(0, 1, 2, 3)), EVERYTHING],
    ids=str,
)
def test_the_size_is_known_before(tmp_path, monkeypatch, kind, ask):
    dtype = "float32" if kind == "multilabel" else "float16"
    monkeypatch.setattr(module, "ROWS_PER_SHARD", 400)
    monkeypatch.setattr(module, "BYTES_PER_SHARD", 200_000)
    uids = list(range(1000))
    cache = LogitsCache(tmp_path, PRINTS, ask, dtype)
    cache.fill(live_of(kind, ask), batches_of(uids, 50, kind=kind), 400, bytes_per_shard=200_000)
    texts = [text_of(uid) for uid in uids]
    lengths, places = ([len(ids) for ids, _ in texts], [int(asked.sum()) for _, asked in texts])
    stated = cache.estimate(SHAPE, task_of(kind), lengths, places)
    on_disk = sum(path.stat().st_size for path in tmp_path.glob("shard-*"))
    assert stated == pytest.approx(on_disk, rel=0.02)


def test_shards_end_at_rows_or_bytes_whichever_comes_first(tmp_path):
    by_rows = filled(tmp_path / "rows", rows_per_shard=16)
    by_bytes = LogitsCache(tmp_path / "bytes", PRINTS, EVERYTHING)
    by_bytes.fill(live_of("classify", EVERYTHING), batches_of(UIDS), bytes_per_shard=1)
    rows = [
        [len(open_shard(path).uids) for path in sorted(cache.folder.glob("shard-*"))] for cache in (by_rows, by_bytes)
    ]
    assert rows == [[16, 16, 8], [8, 8, 8, 8, 8]]


def test_a_shard_is_a_safetensors_file_that_others_can_read(tmp_path):
    filled(tmp_path)
    shard = sorted(tmp_path.glob("shard-*"))[0]
    ours = open_shard(shard)
    with safe_open(shard, framework="np") as file:
        assert np.array_equal(file.get_tensor("hidden.2"), ours.parts["hidden.2"])
        assert np.array_equal(file.get_tensor("uids"), ours.uids)
        assert file.get_tensor("counts.hidden").tolist() == [len(text_of(uid)[0]) for uid in ours.uids.tolist()]


def poison(shard: Path, name: str) -> None:
    """Overwrites one tensor of an open file."""
    with shard.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        start, stop = json.loads(file.read(size))[name]["data_offsets"]
        file.seek(8 + size + start)
        file.write(b"\xff" * (stop - start))


def test_states_are_read_when_they_are_asked_for_and_only_those(tmp_path):
    both = Request(CACHEABLE_STATES, hidden=(1, 2))
    cache = filled(tmp_path, ask=both, rows_per_shard=100)
    batch = batch_of(UIDS)
    before = cache.teacher().answer(batch)
    poison(next(tmp_path.glob("shard-*")), "hidden.2")
    after = cache.teacher().answer(batch)
    assert torch.equal(after.hidden[1], before.hidden[1])
    assert after.hidden[2][batch.inputs["attention_mask"].bool()].isnan().all(), "it was read from memory"
    assert LogitsCache(tmp_path, PRINTS, both).damaged


def resident(path: Path) -> int:
    """Bytes of a mapped file that this process has looked at."""
    found, here = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        word = line.split()
        if "-" in word[0]:
            here = word[-1] == str(path)
        elif here and word[0] == "Rss:":
            found += 1024 * int(word[1])
    return found


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux")
def test_reading_one_layer_touches_no_page_of_the_others(tmp_path):
    megabyte = (2**13, 64)
    parts = {f"hidden.{layer}": np.full(megabyte, layer, np.float16) for layer in range(8)}
    content = to_bytes(Ragged(np.arange(2**10), {"hidden": np.full(2**10, 8)}, parts, 7))
    path = tmp_path / f"shard-{blake2b(content, digest_size=16).hexdigest()}.safetensors"
    with path.open("wb") as file:  # by the page: of a file that is written at once, Linux maps 2 MB at a touch
        for start in range(0, len(content), 2**12):
            file.write(content[start : start + 2**12])
            file.flush()
    shard = open_shard(path)
    opened = resident(path)
    assert opened < 2**19, "what was compared with the checksum stays mapped"
    assert shard.parts["hidden.3"].sum(dtype=np.float64) == 3 * 2**19
    touched = resident(path)
    assert 2**20 <= touched < 2**20 + 2**19


def write_on_and_on(folder: str) -> None:
    """Fills a cache in shards of one batch until it is killed."""
    cache = LogitsCache(folder, PRINTS, EVERYTHING)
    uids = torch.arange(100_000)
    uids = uids[cache.lacks(uids)].tolist()
    batches = (batch_of(uids[start : start + 2]) for start in range(0, len(uids), 2))
    cache.fill(live_of("classify", EVERYTHING), batches, rows_per_shard=2)


def test_a_killed_writer_leaves_whole_answers_and_is_taken_up(tmp_path):
    folder = tmp_path / "cache"
    for _ in range(2):
        with Forked([sys.executable, __file__, folder]) as writer:
            wanted = len(list(folder.glob("shard-*.safetensors"))) + 10
            while len(list(folder.glob("shard-*.safetensors"))) < wanted and writer.poll() is None:
                time.sleep(0.003)
            writer.kill()
        assert writer.returncode == -signal.SIGKILL, "the writer ended by itself"
        cache = LogitsCache(folder, PRINTS, EVERYTHING)
        assert not cache.damaged
        there = cache.uids.tolist()
        assert there == list(range(len(there)))
        assert len(there) == 2 * len(list(folder.glob("shard-*.safetensors"))), "something was asked twice"
    uids = list(range(len(there) + 7))
    lacking = torch.tensor(uids)[cache.lacks(torch.tensor(uids))].tolist()
    assert len(lacking) == 7
    live = live_of("classify", EVERYTHING)
    cache.fill(live, [batch_of(lacking)])
    batch = batch_of(uids[::-1])
    assert_same(cache.teacher().answer(batch), live.answer(batch), batch)


if __name__ == "__main__":
    write_on_and_on(sys.argv[1])
