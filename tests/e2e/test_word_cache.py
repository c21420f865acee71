"""A teacher's answers about words on disk: made, shown, cut off, shared, refused, and learnt from again and again."""

import re
import signal

import numpy as np
import pytest
import torch

from limbeck.core.record import Record
from limbeck.teachers.topk import TopKCache
from running import BLOCKS, WORDS, files, finish, limbeck, start, stop
from tiny import make_tokenizer
from tiny_language import make_masked, save


@pytest.fixture(scope="module")
def ask(masked, corpus):
    return ("cache", "--teacher", masked, "--data", corpus, *BLOCKS, "--top", 8, "--threads", 1)


@pytest.fixture(scope="module")
def beginner(tmp_path_factory):
    """A student to start from when the teacher is gone."""
    return save(make_masked(layers=2, seed=9), make_tokenizer(), tmp_path_factory.mktemp("start") / "student")


def contents(folder):
    """uid → what is kept of it."""
    store = TopKCache.open(folder)
    uids = store.uids
    top, counts = store.get(uids)
    ends = np.cumsum(counts)
    return {
        uid: (top.ids[end - count : end], top.log_p[end - count : end])
        for uid, end, count in zip(uids.tolist(), ends.tolist(), counts.tolist(), strict=True)
    }


def assert_alike(one, other):
    """Sums in another order may tip a rounding."""
    assert one.keys() == other.keys()
    for uid, (ids, log_p) in one.items():
        assert ids.shape == other[uid][0].shape
        assert torch.allclose(log_p, other[uid][1], atol=0.1)
        assert (ids == other[uid][0]).float().mean() > 0.5


def test_a_cache_is_announced_made_and_shown(kept, masked, corpus):
    out, said = kept
    store = TopKCache.open(out)
    announced = re.search(
        r"([\d,]+) tokens to cache: about .* and ([\d.]+) MB \((\d+) bytes per token; .* free\)", said.err
    )
    assert int(announced[1].replace(",", "")) == store.tokens, "the estimate is honest"
    assert int(announced[3]) == pytest.approx(store.bytes_on_disk / store.tokens, rel=0.5)
    assert said.err.index("tokens to cache") < said.err.index("100%")
    shown = limbeck("cache", "--info", out)
    assert shown.code == 0
    assert shown.out.strip() in said.out
    flat = re.sub(r"\s+", " ", shown.out)
    assert f"{store.tokens:,} tokens of {len(store)} blocks" in flat
    assert "the 8 most probable of 36 tokens, temperature 1" in flat
    assert str(masked) in flat
    assert str(corpus) in flat
    assert '"rounds": 2' in flat
    assert not [name for name in files(out) if ".part" in name or "damaged" in name]


def test_a_complete_cache_asks_nothing(kept, ask):
    out, _ = kept
    before = {path.name: path.read_bytes() for path in out.glob("shard-*")}
    said = limbeck(*ask, "--out", out, "--mask.rounds", 2)
    assert said.code == 0, said.err
    assert "to cache" not in said.err
    assert {path.name: path.read_bytes() for path in out.glob("shard-*")} == before


def test_more_masks_are_added_to_what_is_there(kept, ask, tmp_path):
    out = tmp_path / "cache"
    first = limbeck(*ask, "--out", out)
    assert first.code == 0, first.err
    half = TopKCache.open(out)
    tokens, blocks = half.tokens, len(half)
    more = limbeck(*ask, "--out", out, "--mask.rounds", 2)
    assert more.code == 0, more.err
    assert len(TopKCache.open(out)) == 2 * blocks
    announced = int(re.search(r"([\d,]+) tokens to cache", more.err)[1].replace(",", ""))
    assert announced == TopKCache.open(out).tokens - tokens
    assert_alike(contents(out), contents(kept[0]))


def test_stopped_and_killed_and_run_again_it_is_complete(ask, tmp_path):
    out, whole = tmp_path / "cache", tmp_path / "whole"
    rounds = ("--mask.rounds", 8)
    assert limbeck(*ask, "--out", whole, *rounds).code == 0
    child = start(*ask, "--out", out, *rounds, "--batch-size", 1)
    stop(child, lambda: len(list(out.glob("shard-*"))) > 9, signal.SIGKILL)
    some = len(TopKCache.open(out))
    assert 0 < some < len(TopKCache.open(whole))
    before = set(out.glob("shard-*"))
    child = start(*ask, "--out", out, *rounds, "--batch-size", 1)
    said = stop(child, lambda: len(set(out.glob("shard-*")) - before) > 5, signal.SIGINT)
    assert said.code == 130
    assert said.err.splitlines()[-1].startswith("limbeck: stopped; run the same command again")
    assert "Traceback" not in said.err
    assert len(TopKCache.open(out)) > some
    said = limbeck(*ask, "--out", out, *rounds)
    assert said.code == 0, said.err
    left = int(re.search(r"([\d,]+) tokens to cache", said.err)[1].replace(",", ""))
    assert 0 < left < TopKCache.open(whole).tokens
    assert_alike(contents(out), contents(whole))


def test_two_at_once_fill_one_cache(kept, ask, tmp_path):
    out = tmp_path / "cache"
    children = [start(*ask, "--out", out, "--mask.rounds", 2, "--batch-size", 4) for _ in range(2)]
    said = [finish(child) for child in children]
    assert [one.code for one in said] == [0, 0], said
    assert "Traceback" not in said[0].err + said[1].err
    assert_alike(contents(out), contents(kept[0]))
    assert limbeck("cache", "--info", out).code == 0


def test_a_damaged_shard_is_named_and_mended(ask, tmp_path):
    out = tmp_path / "cache"
    assert limbeck(*ask, "--out", out).code == 0
    before = contents(out)
    shard = next(out.glob("shard-*"))
    shard.write_bytes(shard.read_bytes()[:-50] + bytes(50))
    shown = limbeck("cache", "--info", out)
    assert shown.code == 0
    assert shard.name in re.sub(r"\s+", "", shown.out)
    assert "limbeck cache" in shown.out
    said = limbeck(*ask, "--out", out)
    assert said.code == 0, said.err
    assert_alike(contents(out), before)


def test_draws(ask, masked, corpus, beginner, tmp_path):
    out = tmp_path / "cache"
    said = limbeck(*ask, "--out", out, "--draws", 20, "--temperature", 2)
    assert said.code == 0, said.err
    assert "20 draws of 36 tokens, temperature 2" in re.sub(r"\s+", " ", said.out)
    given = ("distill", "--task", "mask-fill", "--student-from", beginner, "--data", corpus, "--cache", out, *WORDS)
    custom = ("--recipe", "custom", "--objective.sampled.weight", 1)
    said = limbeck(*given, *custom, "--objective.sampled.temperature", 2, "--out", tmp_path / "run")
    assert said.code == 0, said.err
    assert any("20 samples of each" in note for note in Record.load(tmp_path / "run").notes)
    said = limbeck(*given, *custom, "--out", tmp_path / "other")
    assert said.code == 2
    assert "'sampled' works at temperature 1" in said.err
    said = limbeck(*given, "--out", tmp_path / "other")
    assert said.code == 2
    assert "holds samples, but the objective wants top" in said.err


@pytest.mark.parametrize(
    ("change", "says", "remedy"),
    [
        (("--mask.seed", 1), "made with another mask", "limbeck cache"),
        (("--mask.kind", "whole-word"), "made with another mask", "limbeck cache"),
        (("--mask.ask", "all"), "made with another mask", "limbeck cache"),
        (("--mask.rounds", 3), "has no output for", "--teacher"),
        (("--blocks.length", 24), "blocks of another length", "--info"),
        (("--data.dev-share", 0.3), "made from other text", "--info"),
        (("--objective.truncated.k", 9), "asks for the 9 most probable words, but the cache holds 8", "--top 9"),
        (("--objective.truncated.temperature", 2), "the cache keeps it for 1", "temperature"),
        (("--recipe", "distilbert"), "of which a cache holds only the top", "leave out --cache"),
        (("--recipe", "word-kd"), "of which a cache holds only the top", "--recipe truncated"),
        (("--task", "generate"), "", ""),
    ],
    ids=lambda value: "".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_a_cache_of_other_questions_is_refused(kept, beginner, corpus, tmp_path, change, says, remedy):
    before = {path.name: path.read_bytes() for path in kept[0].iterdir() if path.name != ".lock"}
    given = ("--task", "mask-fill", "--student-from", beginner, "--data", corpus, "--cache", kept[0])
    said = limbeck("distill", *given, "--out", tmp_path / "x", *WORDS, *change)
    assert said.code == 2, said
    assert "Traceback" not in said.err
    problem, hint = said.err.split("limbeck: ", 1)[1].split("\n  → ")
    assert says in problem
    assert remedy in hint
    assert {path.name: path.read_bytes() for path in kept[0].iterdir() if path.name != ".lock"} == before
    assert not (tmp_path / "x" / "arms").exists()


def test_a_cache_of_another_teacher_is_refused(kept, ask, corpus, tmp_path):
    other = save(make_masked(layers=4, seed=7), make_tokenizer(), tmp_path / "other")
    given = ("--task", "mask-fill", "--teacher", other, "--data", corpus)
    said = limbeck("distill", *given, "--cache", kept[0], "--out", tmp_path / "x", *WORDS)
    assert said.code == 2
    assert "was made with another teacher" in said.err
    said = limbeck("cache", *given, *BLOCKS, "--top", 8, "--out", kept[0], "--mask.rounds", 2)
    assert said.code == 2
    assert "made with another teacher" in said.err
    for change, what in ((("--top", 5), "k (8, not 5)"), (("--temperature", 3), "temperature (1.0, not 3.0)")):
        said = limbeck(*ask, "--out", kept[0], "--mask.rounds", 2, *change)
        assert said.code == 2
        assert what in said.err


@pytest.mark.parametrize("verb", ["info", "distill"])
def test_a_folder_that_is_no_cache(verb, beginner, corpus, tmp_path):
    given = ("--task", "mask-fill", "--student-from", beginner, "--data", corpus, "--out", tmp_path / "x", *WORDS)
    said = limbeck("cache", "--info", tmp_path) if verb == "info" else limbeck("distill", *given, "--cache", tmp_path)
    assert said.code == 2
    assert "is not a teacher cache" in said.err
    assert "limbeck cache" in said.err


def test_what_a_cache_cannot_be_made_of(bare, corpus, teacher_folder, reviews, tmp_path):
    for teacher, more, says in (
        (bare, (), "has no"),
        (teacher_folder, ("--task", "classify"), "is not a language model's"),
        (tmp_path / "nowhere", (), "nowhere"),
    ):
        said = limbeck("cache", "--teacher", teacher, "--data", corpus, "--out", tmp_path / "x", *more)
        assert said.code == 2, said
        assert says in said.err
    assert limbeck("cache", "--data", corpus, "--out", tmp_path / "x").code == 2
    assert limbeck("cache", "--teacher", bare, "--data", corpus).code == 2
    assert not (tmp_path / "x").exists()


def test_a_run_killed_while_training_ends_like_an_unbroken_one(masked, corpus, tmp_path):
    job = ("distill", "--task", "mask-fill", "--teacher", masked, "--data", corpus, *WORDS, "--epochs", 2)
    job = (*job, "--train.evals-per-epoch", 3, "--top", 8, "--teacher-cache.batch-size", 1, "--no-baseline")
    whole, out = tmp_path / "whole", tmp_path / "run"
    assert limbeck(*job, "--out", whole).code == 0
    child = start(*job, "--out", out)
    places = out / "arms" / "distilled-seed0"
    stop(child, lambda: any(places.glob("checkpoints-*/checkpoint-*/complete")), signal.SIGKILL)
    assert not (out / "record.json").exists()
    said = limbeck(*job, "--out", out)
    assert said.code == 2
    assert "--resume" in said.err
    said = limbeck("distill", "--resume", "--out", out, "--mask.seed", 1)
    assert said.code == 2
    said = limbeck("distill", "--resume", "--out", out)
    assert said.code == 0, said.err
    weights = "student/model.safetensors"
    assert (out / weights).read_bytes() == (whole / weights).read_bytes()
    a, b = Record.load(out), Record.load(whole)
    assert [arm.runs[0].quality for arm in a.arms] == [arm.runs[0].quality for arm in b.arms]
    assert not [name for name in files(out) if re.search(r"checkpoint|\.part|damaged", name)]
