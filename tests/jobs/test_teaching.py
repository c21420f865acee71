"""The cache of a language model's outputs: checked against what is needed, and completed."""

import pytest
import torch

from limbeck.core.errors import MismatchError
from limbeck.core.progress import Silent
from limbeck.core.trace import Teacher, Want
from limbeck.data.batches import batches
from limbeck.jobs import teaching
from limbeck.jobs.settings import Run
from limbeck.jobs.teaching import TESTED, _say_damaged, check_cache, fill_cache
from limbeck.tasks.base import Model, Setup
from limbeck.tasks.language import LanguageTask
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.topk import Manifest, TopKCache
from tiny import VOCABULARY, make_tokenizer
from tiny_language import make_encoded, make_masked

WORDS = len(VOCABULARY)
PRINTS = {"teacher": "t", "tokenizer": "k", "data": "d", "mask": "m"}
TOP = Manifest(k=6, vocabulary=WORDS, fingerprints=PRINTS)
SAMPLED = TOP.but(kind="sampled", k=20, temperature=2.0)


@pytest.fixture(scope="module")
def network():
    """Sharpened: a fresh model finds all words alike."""
    model = make_masked(layers=2, seed=3)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(20)
    return model


@pytest.fixture(scope="module")
def data():
    return make_encoded(make_tokenizer())


class Listening(Silent):
    """What was said, and how far it came."""

    def __init__(self):
        self.lines, self.shares = [], []

    def say(self, line):
        self.lines.append(line)

    def at(self, item, share, detail=""):
        self.shares.append(share)


class Counting(Teacher):
    has = Want.LOGITS
    uids: list[int] = []

    def __init__(self, *how):
        self.teacher = LiveTeacher(*how)

    def answer(self, batch):
        self.uids += batch.uids.tolist()
        return self.teacher.answer(batch)


@pytest.fixture
def uids(monkeypatch):
    """Of every example that a teacher is run on."""
    monkeypatch.setattr(Counting, "uids", [])
    monkeypatch.setattr(teaching, "LiveTeacher", Counting)
    return Counting.uids


def fill(store, network, data, size, watcher=None):
    teacher = Model(network, make_tokenizer()) if network else None
    setup = Setup(LanguageTask(data.info, Run()), teacher, None, data, PRINTS)
    fill_cache(store, setup, data.train(""), data, size, watcher or Silent())


@pytest.mark.parametrize(
    ("prints", "vocabulary", "want", "says"),
    [
        ({"teacher": "other"}, WORDS, Want.TOP, "made with another teacher"),
        ({"mask": "x", "tokenizer": "y"}, WORDS, Want.TOP, "another tokenizer and another mask"),
        ({}, WORDS + 1, Want.TOP, f"is over {WORDS} tokens, the student knows {WORDS + 1}"),
        ({}, WORDS, Want.SAMPLED, "holds the top, but the objective wants sampled"),
        ({}, WORDS, Want.TOP | Want.HIDDEN, "wants hidden"),
    ],
)
def test_a_store_of_something_else_is_refused(tmp_path, prints, vocabulary, want, says):
    store = TopKCache(tmp_path, TOP, write=True)
    with pytest.raises(MismatchError, match=says) as refused:
        check_cache(store, PRINTS | prints, vocabulary, want)
    assert refused.value.remedy
    assert str(tmp_path) in refused.value.problem


def test_samples_do_not_serve_the_top(tmp_path):
    with pytest.raises(MismatchError, match=r"holds samples, but the objective wants top\n.*'sampled'"):
        check_cache(TopKCache(tmp_path, SAMPLED, write=True), PRINTS, WORDS, Want.TOP)


def test_what_fits_is_accepted(tmp_path):
    store = TopKCache(tmp_path, TOP, write=True)
    check_cache(store, PRINTS, WORDS, Want.TOP)
    check_cache(store, PRINTS | {"data": "other"}, WORDS, Want.TOP)  # its examples are looked up one by one
    check_cache(store, {name: PRINTS[name] for name in ("tokenizer", "mask")}, WORDS, Want.TOP)  # the teacher is gone


def test_only_what_is_missing_is_filled(tmp_path, network, uids):
    data = make_encoded(make_tokenizer(), rounds=2)
    train = data.train("")
    everything = train.uids.tolist()
    assert len(set(everything)) == len(everything)
    store, watcher = TopKCache(tmp_path, TOP, write=True), Listening()
    fill(store, network, make_encoded(make_tokenizer(), rounds=1), 7, watcher)
    assert sorted(uids) == sorted(everything[: len(train)])
    assert watcher.shares == sorted(watcher.shares)
    assert watcher.shares[-1] == 1.0

    watcher.shares.clear()
    fill(store, network, data, 7, watcher)
    assert sorted(uids) == sorted(everything), "each example once"
    assert watcher.shares[0] > TESTED + 0.5 * (1 - TESTED)
    assert watcher.shares[-1] == 1.0
    assert watcher.lines == [f"{tmp_path} lacks {len(train)} of {len(everything)} examples; they are added"]

    fill(store, network, data, 7, watcher)
    assert len(uids) == len(everything)
    assert not TopKCache.open(tmp_path).lacks(everything).any()
    fill(store, None, data, 7, watcher)  # nothing is missing: nobody is needed


def test_a_damaged_shard_is_told_of_and_filled_again(tmp_path, network, data, uids):
    fill(TopKCache(tmp_path, TOP, write=True), network, data, 8)
    shard = next(tmp_path.glob("shard-*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-9] + b"\1" * 9)
    store, watcher = TopKCache.open(tmp_path, write=True), Listening()
    uids.clear()
    _say_damaged(store.damaged, watcher)
    fill(store, network, data, 8, watcher)
    assert watcher.lines == [f"{shard} was damaged and is filled again"]
    assert sorted(uids) == sorted(data.train("").uids.tolist())


def test_without_a_teacher_missing_outputs_are_refused(tmp_path, network, data):
    store = TopKCache(tmp_path, TOP, write=True)
    teacher = LiveTeacher(network, vocabulary=WORDS)
    some = list(batches(data.train(""), data.evaluator.collate, 8))[:2]
    store.fill(teacher, some, lambda done: None)
    everything = len(data.train(""))
    with pytest.raises(MismatchError, match=f"no output for {everything - 16} of {everything} examples") as refused:
        fill(store, None, data, 8)
    assert "--teacher" in refused.value.remedy
