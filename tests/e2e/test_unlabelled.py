"""Texts without labels beside labelled ones, or alone: by the real command, killed and resumed, and told in reports."""

import csv
import re
import shutil
import signal

import numpy as np
import pytest
from transformers import AutoModelForSequenceClassification

from limbeck import Report
from limbeck.core.record import Record
from limbeck.report import summary
from limbeck.teachers.logits import LogitsCache
from running import files, finish, limbeck, start, stop
from tiny import make_rows, write_csv

# One thread everywhere: sums in another order would differ in the last bit.
KNOBS = (
    *("--epochs", 2, "--batch-size", 16, "--train.evals-per-epoch", 4, "--learning-rate", "1e-3"),
    *("--teacher-cache.batch-size", 2, "--train.threads", 1, "--measure.no-speed", "--measure.bootstrap", 200),
)
WEIGHTS = "student/model.safetensors"


@pytest.fixture(scope="module")
def texts():
    """None like another, nor like one of the reviews."""
    return [f"{row['text']} of {'the ' * (place % 7)}{row['text']}" for place, row in enumerate(make_rows(220, seed=9))]


@pytest.fixture(scope="module")
def more(texts, reviews, tmp_path_factory):
    """With texts that are known, and a column of labels that nobody is to learn from."""
    with open(reviews, newline="", encoding="utf-8") as file:
        known = [row["text"] for row in csv.DictReader(file)]
    rows = [{"text": text, "label": "negative"} for text in [*texts, *known]]
    return write_csv(tmp_path_factory.mktemp("more") / "more.csv", rows)


@pytest.fixture(scope="module")
def command(taught, reviews, more):
    return ("distill", "--teacher", taught, "--data", reviews, "--unlabelled", more, *KNOBS)


@pytest.fixture(scope="module")
def job(command, tmp_path_factory):
    out = tmp_path_factory.mktemp("unlabelled") / "run"
    said = limbeck(*command, "--train.best-by", "both", "--out", out)
    assert said.code == 0, said.err
    return out, said


@pytest.fixture(scope="module")
def raw(taught, texts, tmp_path_factory):
    """No row has a label."""
    folder = tmp_path_factory.mktemp("raw")
    (folder / "raw.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    out = folder / "run"
    said = limbeck("distill", "--teacher", taught, "--unlabelled", folder / "raw.txt", "--out", out, *KNOBS)
    assert said.code == 0, said.err
    return out, said


def test_every_source_says_what_it_gave(job, texts):
    folder, said = job
    record = Record.load(folder)
    labelled, bare = record.data.sources
    assert (labelled.read, labelled.used, labelled.gives) == (240, 240, "train, dev, test")
    fresh = len(set(texts))
    assert (bare.read, bare.used) == (len(texts) + 240, fresh)
    assert sum(bare.dropped.values()) == len(texts) + 240 - fresh
    assert {"also in test", "also in dev", "also in train"} <= bare.dropped.keys()
    train = record.data.splits["train"]
    assert train.rows - train.labelled == fresh
    for place in (said.err, (folder / "report.html").read_text(), (folder / "student" / "README.md").read_text()):
        told = re.sub(r"\\", "", place)
        assert f"{fresh} of {len(texts) + 240} rows for the teacher to answer" in told
    assert "its column 'label' is ignored" in said.err


def test_the_teacher_answers_all_and_the_baseline_learns_from_labelled_rows(job):
    folder, _ = job
    record = Record.load(folder)
    rows = sum(split.rows for split in record.data.splits.values())
    about = {name: record.fingerprints[name] for name in ("teacher", "tokenizer", "data")}
    assert len(LogitsCache(folder / "teacher-cache", about).uids) == rows
    labelled = record.data.splits["train"].labelled
    assert any(f"trained on the {labelled} labelled rows alone" in note for note in record.notes)
    assert record.comparisons
    assert {"accuracy"} <= record.arm("distilled").runs[0].quality.keys()
    assert list((folder / "transfer").iterdir())


def test_the_best_weights_are_those_with_the_best_mean(job):
    """The baseline, which has no teacher, is chosen by labels."""
    record = Record.load(job[0])
    run = record.arm("distilled").runs[0]
    points = [point for point in run.curve if point.dev]
    for point in points:
        mean = (point.dev["accuracy"] + point.dev["agreement"]) / 2
        assert point.dev["labels_and_agreement"] == pytest.approx(mean)
    best = max(points, key=lambda point: point.dev["labels_and_agreement"])
    assert next(p for p in points if p.step == run.best_step).dev == best.dev
    assert not any("agreement" in point.dev for point in record.arm("plain").runs[0].curve)
    assert any("the mean of accuracy and agreement with the teacher on dev" in note for note in record.notes)


@pytest.mark.slow
def test_a_run_killed_twice_ends_with_the_same_weights(command, job, tmp_path):
    out = tmp_path / "run"
    words = (*command, "--train.best-by", "both", "--out", out)
    stop(start(*words), lambda: bool(list(out.glob("teacher-cache/shard-*"))), signal.SIGKILL)
    first = sorted((file, file.stat().st_mtime_ns) for file in (out / "transfer").rglob("*.bin"))
    assert first
    arms = out / "arms"
    stop(start(*words, "--resume"), lambda: bool(list(arms.glob("distilled*/checkpoints*/*/complete"))), signal.SIGKILL)
    said = finish(start(*words, "--resume"))
    assert said.code == 0, said.err
    assert sorted((file, file.stat().st_mtime_ns) for file in (out / "transfer").rglob("*.bin")) == first
    for weights in (WEIGHTS, "arms/plain-seed0/model/model.safetensors"):
        assert (out / weights).read_bytes() == (job[0] / weights).read_bytes()
    assert not [name for name in files(out) if "checkpoint" in name or ".part" in name]


def test_other_texts_are_another_run(command, job, more, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(job[0], out)
    fewer = tmp_path / "fewer.csv"
    fewer.write_text("\n".join(more.read_text().splitlines()[:50]) + "\n")
    said = limbeck(*command, "--train.best-by", "both", "--out", out, "--resume", "--unlabelled", fewer)
    assert said.code != 0
    assert "unlabelled" in said.err


# No labels at all


def test_without_labels_nothing_is_claimed_of_accuracy(raw):
    folder, said = raw
    record = Record.load(folder)
    assert [arm.name for arm in record.arms] == ["teacher", "distilled"]
    assert record.floor is None
    assert record.comparisons == []
    assert all(run.quality == {} for arm in record.arms for run in arm.runs)
    run = record.arm("distilled").runs[0]
    assert run.fidelity.agreement > 0.5
    assert run.fidelity.accuracy_teacher_right is None
    assert all(point.dev.keys() <= {"agreement", "loss"} for point in run.curve)
    sentence = summary.unlabelled(record)
    assert sentence.startswith("No row has a label: accuracy is not known")
    flat = " ".join(said.out.split())
    assert sentence in flat
    assert "predicts as the teacher does on" in flat
    for page in (folder / "report.html", folder / "student" / "README.md"):
        assert "No row has a label: accuracy is not known" in page.read_text(encoding="utf-8")
    assert "Agreement on the dev split" in (folder / "report.html").read_text(encoding="utf-8")


def test_without_labels_the_best_checkpoint_agrees_best(raw):
    record = Record.load(raw[0])
    run = record.arm("distilled").runs[0]
    agreement = {point.step: point.dev["agreement"] for point in run.curve if point.dev}
    assert agreement[run.best_step] == max(agreement.values())
    assert any("early stopping watched agreement with the teacher" in note for note in record.notes)
    assert AutoModelForSequenceClassification.from_pretrained(raw[0] / "student").config.num_hidden_layers == 2


def test_a_comparison_without_labels_says_so_too(raw):
    record = Record.load(raw[0]).but(kind="compare")
    assert "No row has a label" in Report((record,)).markdown()


# Refused before the first step


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--unlabelled", "nowhere.csv"), "there is no file nowhere.csv"),
        (("--unlabelled", "empty.csv"), "empty.csv is empty"),
        (("--unlabelled", "other.csv"), "its columns: 'colour', 'size'"),
        (("--unlabelled", "test.csv", "--data.test", "test.csv"), "--unlabelled and --data.test are the same file"),
        (("--unlabelled", "more.txt", "--recipe", "finetune"), "no step of this run asks the teacher"),
        (("--unlabelled", "more.txt", "--train.best-by", "both", "--metric", "nll"), "a lower nll is better"),
        (("--unlabelled", "more.txt", "--task", "mask-fill"), "--task mask-fill does not take it"),
    ],
)
def test_bad_input(taught, reviews, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "other.csv").write_text("colour,size\nred,3\nblue,4\n")
    (tmp_path / "more.txt").write_text("a text that is new\n")
    write_csv(tmp_path / "test.csv", make_rows(40, 3))
    found = limbeck("distill", "--teacher", taught, "--data", reviews, "--out", "run", *KNOBS, *words)
    assert found.code != 0
    assert said in " ".join(found.err.split())
    assert not list(tmp_path.glob("run/arms/*"))


@pytest.mark.parametrize("verb", ["train", "eval"])
def test_verbs_without_a_teacher_refuse_it(taught, reviews, tmp_path, verb):
    model = ("--model", taught, "--out", tmp_path / "run") if verb == "train" else (taught,)
    found = limbeck(verb, *model, "--data", reviews, "--data.unlabelled", reviews)
    assert found.code != 0
    assert "nobody answers them here" in " ".join(found.err.split())


def test_choosing_by_agreement_needs_a_teacher(taught, reviews, tmp_path):
    words = ("--model", taught, "--data", reviews, "--out", tmp_path / "run", "--train.best-by", "agreement")
    found = limbeck("train", *words)
    assert found.code != 0
    assert "needs a teacher to agree with, and this run has none" in " ".join(found.err.split())


def test_agreement_finds_the_teachers_answers_whatever_the_order():
    from limbeck.core.task import TaskInfo
    from limbeck.core.trace import Teacher, Trace, Want
    from limbeck.data.text.examples import Examples, encode
    from limbeck.measure.evaluator import TextEvaluator
    from tiny import make_tokenizer

    class ByUid(Teacher):
        """The class of a row is its uid's parity."""

        has = Want.LOGITS

        def answer(self, batch):
            import torch

            return Trace(logits=torch.nn.functional.one_hot(batch.uids % 2, 2).float())

    rows = [str(row["text"]) for row in make_rows(9)]
    uids = np.array([40, 7, 12, 3, 99, 5, 8, 1, 20])
    dev = Examples(uids, rows, [], np.full(9, -100), np.zeros(9, dtype=bool))
    tokens = encode(dev, make_tokenizer(), 32)
    evaluator = TextEvaluator(
        TaskInfo(kind="classify", labels=("a", "b")), make_tokenizer(), {"dev": tokens, "test": tokens}
    )
    chosen = evaluator.with_teacher(ByUid()).choosing("auto")
    assert chosen.best_metric == "agreement"
    assert not chosen.labels_on_dev
    order = np.array([3, 1, 4, 0, 5, 2, 8, 6, 7])
    right = np.eye(2)[uids % 2]
    wrong = right.copy()
    wrong[:3] = 1 - wrong[:3]
    for logits, expected in ((right, 1.0), (wrong, 6 / 9)):
        scores = chosen._dev_scores(logits[order], dev.labels[order], dev.has_label[order], uids[order])
        assert scores == {"agreement": pytest.approx(expected)}
