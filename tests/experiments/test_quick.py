"""`limbeck reproduce` end to end on a tiny model: real children, a Record, a page; resumed after a kill."""

import csv
import signal

import pytest

from limbeck.core.record import Record
from running import finish, limbeck, start, stop
from tiny import make_classifier, make_rows, make_tokenizer
from tiny_images import make_images, write_idx

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("reproduce")
    make_classifier(layers=4).save_pretrained(home / "model")
    make_tokenizer().save_pretrained(home / "model")
    for seed, split in enumerate(("train", "dev", "test")):
        with (home / f"{split}.tsv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ("label", "text"), delimiter="\t")
            writer.writeheader()
            writer.writerows(make_rows(120, seed))
    return home


def command(home, out):
    return ("reproduce", "pkd-sst2", "--quick", "--data", home, "--model", home / "model", "--out", out)


def test_a_killed_experiment_goes_on_behind_its_last_part(home, tmp_path):
    out = tmp_path / "out"
    child = start(*command(home, out))
    stop(child, lambda: (out / "students" / "run.toml").exists(), signal.SIGTERM)
    assert (out / "teacher" / "record.json").exists()
    assert not (out / "record.json").exists()
    before = (out / "teacher" / "record.json").stat().st_mtime_ns
    said = finish(start(*command(home, out)))
    assert said.code == 0, said.err
    assert (out / "teacher" / "record.json").stat().st_mtime_ns == before
    assert "1 of 2 parts are finished already" in said.err
    record = Record.load(out)
    assert record.quick
    assert record.name == "pkd-sst2"
    assert [one.row for one in record.published] == [
        *("teacher", "3 layers, fine-tuned", "3 layers, KD", "3 layers, PKD"),
        *("6 layers, fine-tuned", "6 layers, KD", "6 layers, PKD"),
    ]
    assert [one.ours is not None for one in record.published] == [True] * 4 + [False] * 3, "--set deep_seeds=0"
    assert record.published[1].ours == pytest.approx(100 * record.arm("finetune").mean("accuracy"))
    assert record.finding.startswith("Of the paper's 4 findings")
    assert record.citations[0].text.startswith("Siqi Sun")
    assert "Published beside ours" in said.out
    assert "a quick run: figures say nothing about the paper" in said.out
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Published beside ours" in page
    assert "A quick run: its figures say nothing about the paper." in page
    again = limbeck(*command(home, out))
    assert again.code == 0
    assert Record.load(out) == record, "what is finished is not done again"
    refused = limbeck(*command(home, out), "--seeds", 2)
    assert "begun with other settings (seeds: 1 → 2)" in refused.err


def digits(folder):
    """Images of ten classes: the quarter that is bright, and beyond four classes as dark again."""
    parts = {
        split: make_images(rows, seed, 4) for seed, (split, rows) in enumerate({"train": 600, "test": 120}.items())
    }
    for images, labels in parts.values():
        labels[:: len(labels) // 50] = [number % 10 for number in range(len(labels[:: len(labels) // 50]))]
        assert set(labels.tolist()) == set(range(10))
        images[labels > 3] //= 2
    return write_idx(folder, **parts)


def test_soft_targets_end_to_end(tmp_path):
    data, out = digits(tmp_path / "mnist"), tmp_path / "out"
    said = limbeck("reproduce", "hinton-mnist", "--quick", "--data", data, "--out", out, "--seeds", 2)
    assert said.code == 0, said.err
    record = Record.load(out)
    assert {arm.name for arm in record.arms} == {
        *("teacher", "finetune", "jitter", "T1", "T2.5", "T8", "T20", "no-threes", "sevens-eights"),
    }
    assert all([run.seed for run in arm.runs] == [0, 1] for arm in record.arms)
    errors = {one.row: one.ours for one in record.published if one.column == "test errors"}
    assert errors["small network"] == pytest.approx(120 * (1 - record.arm("finetune").mean("accuracy")))
    assert errors["never shown a 3, best bias for test"] <= errors["never shown a 3"]
    assert errors["never shown a 3, best bias for test"] <= errors["never shown a 3, bias chosen on held-out rows"]
    assert {c.better for c in record.comparisons} == {"jitter", "T1", "T2.5", "T8", "T20"}
    assert {(c.than, c.seeds, c.rows) for c in record.comparisons} == {("finetune", 2, 120)}
    found = record.arm("T20").mean("accuracy") - record.arm("finetune").mean("accuracy")
    assert next(c for c in record.comparisons if c.better == "T20").difference == pytest.approx(found, abs=1e-9)
    assert "Published beside ours" in (out / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("network", ["lenet-300-100", "lenet5"])
def test_the_lottery_end_to_end(tmp_path, network):
    big = {split: (images.repeat(2, 1).repeat(2, 2), labels) for split, (images, labels) in _quarters().items()}
    data, out = write_idx(tmp_path / "mnist", **big), tmp_path / "out"
    said = limbeck("reproduce", "lottery-mnist", "--quick", "--data", data, "--out", out, "--network", network)
    assert said.code == 0, said.err
    record = Record.load(out)
    ticket, shot, anew, permuted = (arm.runs[0].levels for arm in record.arms)
    assert [len(levels) for levels in (ticket, shot, anew, permuted)] == [8, 3, 2, 2]
    for levels in (shot[1:], anew, permuted):
        assert [level.remaining for level in levels] == [ticket[3].remaining, ticket[7].remaining]
    assert shot[0].quality == ticket[0].quality, "the same whole network"
    assert all(level.stopped and level.stopped.step % 50 == 0 for level in (*ticket, *shot, *anew, *permuted))
    sooner = next(one for one in record.published if one.column == "early stopping sooner than dense")
    assert sooner.ours == pytest.approx(100 * (1 - ticket[7].stopped.step / ticket[0].stopped.step))
    assert "of random structure" in record.finding


def _quarters():
    return {"train": make_images(600, 1), "test": make_images(120, 2)}


def test_lenet5_is_quick_only(tmp_path):
    data = write_idx(tmp_path / "mnist", **_quarters())
    said = limbeck("reproduce", "lottery-mnist", "--data", data, "--out", tmp_path / "o", "--network", "lenet5")
    assert "run it with --quick" in said.err
