"""A teacher asked once says the same as one asked at every step."""

import json
import re
from pathlib import Path

import pytest
import torch

from limbeck.core.errors import LimbeckError, MismatchError
from limbeck.data.batches import Collator, batches
from limbeck.data.settings import DataSettings
from limbeck.data.text.examples import encode, read_texts
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.logits import LogitsCache
from limbeck.teachers.texts import TextCache
from limbeck.teachers.topk import Manifest, TopKCache
from tiny import make_classifier, make_rows

PRINTS = {"teacher": "t", "tokenizer": "k", "data": "d"}


@pytest.fixture(scope="module")
def asked(tokenizer):
    corpus = read_texts(DataSettings(), make_rows(100))
    encoded = encode(corpus.train, tokenizer, 32)
    return lambda size=16: batches(encoded, Collator.of(tokenizer, corpus.task), size)


@pytest.fixture(scope="module")
def live():
    return LiveTeacher(make_classifier())


def test_live_and_cached_answers_are_equal_under_other_batches(tmp_path, asked, live):
    cache = LogitsCache(tmp_path, PRINTS)
    cache.fill(live, asked(16), rows_per_shard=20)
    cached = LogitsCache(tmp_path, PRINTS).teacher()
    for batch in asked(7):
        assert torch.allclose(cached.answer(batch).logits, live.answer(batch).logits, atol=1e-6)


def test_pairs_that_share_their_first_text_have_answers_of_their_own(tmp_path, tokenizer, live):
    second = ("good", "bad and dull", "the plot was weak")
    rows = [{"sentence1": "the film is", "sentence2": text, "label": "negative"} for text in second]
    rows.append({"sentence1": "a scene", "sentence2": "good", "label": "positive"})
    corpus = read_texts(DataSettings(), {"train": rows, "dev": rows[-1:], "test": rows[-1:]})
    asked = [*batches(encode(corpus.train, tokenizer, 32), Collator.of(tokenizer, corpus.task), 1)]
    cache = LogitsCache(tmp_path, PRINTS)
    cache.fill(live, asked)
    told = [cache.teacher().answer(batch).logits for batch in asked]
    assert len({tuple(logits.flatten().tolist()) for logits in told}) == 4
    for batch, logits in zip(asked, told, strict=True):
        assert torch.allclose(logits, live.answer(batch).logits, atol=1e-6)


def test_the_live_teacher_is_frozen_and_answers_twice_alike(asked):
    model = make_classifier()
    teacher = LiveTeacher(model.train())
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    batch = next(iter(asked()))
    first, second = teacher.answer(batch), teacher.answer(batch)
    assert torch.equal(first.logits, second.logits)
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("what", PRINTS)
def test_a_cache_of_something_else_is_refused(tmp_path, what):
    LogitsCache(tmp_path, PRINTS)
    with pytest.raises(MismatchError, match=f"another {what}.*\n.*delete"):
        LogitsCache(tmp_path, {**PRINTS, what: "other"})


def test_a_half_filled_cache_is_completed(tmp_path, asked, live):
    some = list(asked(16))
    LogitsCache(tmp_path, PRINTS).fill(live, some[:2])
    cache = LogitsCache(tmp_path, PRINTS)
    uids = torch.cat([batch.uids for batch in some])
    assert cache.lacks(uids).sum() == len(uids) - 32
    questions = []

    class Counting(LiveTeacher):
        def answer(self, batch):
            questions.extend(batch.uids.tolist())
            return super().answer(batch)

    cache.fill(Counting(live.model), some[2:])
    assert not cache.lacks(uids).any()
    assert sorted(questions) == sorted(torch.cat([batch.uids for batch in some[2:]]).tolist())


def cut_short(whole: bytes) -> bytes:
    return whole[:-50]


def too_long(whole: bytes) -> bytes:
    return whole + b"more"


def one_bit_wrong(whole: bytes) -> bytes:
    return whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]


def other_shape(whole: bytes) -> bytes:
    return re.sub(rb'"shape":\[(\d+),2\]', lambda found: b'"shape":[%d,1]' % (2 * int(found[1])), whole)


def other_layers(whole: bytes) -> bytes:
    return whole.replace(b'"layers":"0"', b'"layers":"7"')


def shards(folder):
    """Oldest first."""
    return sorted(folder.glob("shard-*.safetensors"))


@pytest.mark.parametrize("which", [0, 1, -1], ids=["first", "second", "last"])
@pytest.mark.parametrize("damage", [cut_short, too_long, one_bit_wrong, other_shape, other_layers, lambda whole: b""])
def test_a_damaged_shard_is_set_aside_and_asked_again(tmp_path, asked, live, damage, which):
    LogitsCache(tmp_path, PRINTS).fill(live, asked(16), rows_per_shard=32)
    shard = shards(tmp_path)[which]
    whole = shard.read_bytes()
    shard.write_bytes(damage(whole))
    assert shard.read_bytes() != whole
    cache = LogitsCache(tmp_path, PRINTS)
    assert shard.with_suffix(".damaged").exists()
    assert cache.damaged == [shard]
    uids = torch.cat([batch.uids for batch in asked()])
    assert 0 < cache.lacks(uids).sum() < len(uids)
    cache.fill(live, [batch for batch in asked() if cache.lacks(batch.uids).any()])
    for mended in (cache, LogitsCache(tmp_path, PRINTS)):
        assert not mended.lacks(uids).any()
        for batch in asked():
            assert torch.equal(mended.teacher().answer(batch).logits, live.answer(batch).logits)


def test_an_unknown_example_is_never_answered_by_another(tmp_path, asked, live):
    some = list(asked(16))
    cache = LogitsCache(tmp_path, PRINTS)
    with pytest.raises(MismatchError, match="no answer"):
        cache.teacher().answer(some[0])
    cache.fill(live, some[:1])
    with pytest.raises(MismatchError, match="no answer"):
        cache.teacher().answer(some[1])


def test_a_foreign_index_is_refused(tmp_path):
    for index in (tmp_path / "cache.json", tmp_path / "index.json"):
        index.write_text("{}")
        with pytest.raises(MismatchError, match=f"{index.name} is damaged"):
            LogitsCache(tmp_path, PRINTS)
        index.unlink()


@pytest.mark.parametrize(
    ("index", "format_", "remedy"),
    [
        ({"cache.json": {"format": 2, "fingerprints": PRINTS}}, 2, "delete .*, or give another folder"),
        ({"index.json": {"version": 1, "about": {"beam": 5}}}, 1, "delete .*, or give another folder"),
        ({"index.json": {"version": 99, "checksum": "?"}}, 99, "update Limbeck, or give another folder"),
    ],
    ids=["logits", "texts and top k", "newer"],
)
def test_a_folder_of_another_format_is_refused_with_the_remedy(tmp_path, index, format_, remedy):
    ((name, content),) = index.items()
    (tmp_path / name).write_text(json.dumps(content))
    for store in (
        lambda: LogitsCache(tmp_path, PRINTS),
        lambda: TextCache(tmp_path, {"beam": 5}),
        lambda: TopKCache(tmp_path, Manifest(), write=True),
        lambda: TopKCache.open(tmp_path),
    ):
        with pytest.raises(MismatchError, match=rf"format {format_}, this version reads 3\n.*{remedy}"):
            store()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_answers_of_nobody_knows_what_are_refused(tmp_path, asked, live):
    LogitsCache(tmp_path, PRINTS).fill(live, asked())
    (tmp_path / "index.json").unlink()
    for other in (lambda: LogitsCache(tmp_path, {"teacher": "t"}), lambda: TextCache(tmp_path, PRINTS)):
        with pytest.raises(MismatchError, match=r"shard-.* was made for something else than this run\n.*delete"):
            other()
    assert len(LogitsCache(tmp_path, PRINTS).uids) == len(torch.cat([batch.uids for batch in asked()]).unique())


def test_a_folder_of_another_store_is_refused(tmp_path):
    LogitsCache(tmp_path, PRINTS)
    with pytest.raises(MismatchError, match=r"another store \(logits, not texts\)"):
        TextCache(tmp_path, {"fingerprints": PRINTS})
    with pytest.raises(MismatchError, match="holds logits, not a top k"):
        TopKCache.open(tmp_path)


def test_a_full_disk_is_explained_and_leaves_whole_shards_only(tmp_path, asked, live, monkeypatch):
    cache = LogitsCache(tmp_path, PRINTS)
    written = []

    def full(path, content):
        written.append(path)
        if len(written) > 1:
            write(path, b"half")
            raise OSError(28, "No space left on device")
        write(path, content)

    write = Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(LimbeckError, match="disk is full"):
        cache.fill(live, asked(16), rows_per_shard=16)
    assert {path.name for path in tmp_path.iterdir()} == {shards(tmp_path)[0].name, "index.json"}
    assert len(LogitsCache(tmp_path, PRINTS).uids) == 16
