"""`limbeck reproduce` end to end on a tiny model: real children, a Record, a page; resumed after a kill."""

import csv
import signal

import pytest

from limbeck.core.record import Record
from running import finish, limbeck, start, stop
from tiny import make_classifier, make_rows, make_tokenizer

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
    ]
    assert all(one.ours is not None for one in record.published)
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
