"""Every recipe of texts, from the command line to a folder that opens again."""

import pytest
import torch
from transformers import AutoModelForSequenceClassification

import limbeck as package
from limbeck.core.record import Record
from limbeck.core.task import TaskInfo
from limbeck.recipes import RECIPES
from running import limbeck
from tiny import make_classifier, make_rows, make_tokenizer, write_csv

TEXT_KINDS = [name for name, plan in RECIPES.items() if "classify" in plan.tasks]
QUICK = ("--epochs", 1, "--learning-rate", 1e-3, "--measure.no-speed", "--measure.bootstrap", 200, "--no-baseline")
INFO = TaskInfo(kind="classify", labels=("negative", "positive"))
SHORT = {name: [f"--stages.{stage}.epochs" for stage in RECIPES[name].stages(INFO)] for name in TEXT_KINDS}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    folder = tmp_path_factory.mktemp("teacher")
    make_classifier(layers=4, seed=5).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return write_csv(tmp_path_factory.mktemp("data") / "texts.csv", make_rows(120))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    rows = [{"first": row["text"], "second": row["text"][::-1], "label": row["label"]} for row in make_rows(120)]
    return write_csv(tmp_path_factory.mktemp("data") / "pairs.csv", rows)


def distilled(name, teacher, data, out, *flags):
    short = [word for flag in SHORT[name] for word in (flag, 1)]
    said = limbeck(
        "distill", "--recipe", name, "--teacher", teacher, "--data", data, "--out", out, *QUICK, *short,
        "--augment.copies", 2, *flags,
    )  # fmt: skip
    assert said.code == 0, said.err
    return said


@pytest.mark.parametrize("name", TEXT_KINDS)
def test_a_recipe_runs_and_its_student_opens(name, teacher, texts, tmp_path):
    distilled(name, teacher, texts, tmp_path / "run")
    record = Record.load(tmp_path / "run")
    assert record.knobs["recipe"] == name
    assert any(RECIPES[name].paper.title in citation.text for citation in record.citations)
    package.register()
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "run" / "student").eval()
    tokenizer = make_tokenizer()
    batch = tokenizer(["a good film", "the plot was very bad and dull"], padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = model(**batch).logits
        alone = model(**tokenizer(["a good film"], return_tensors="pt")).logits
    assert torch.allclose(logits[:1], alone, atol=1e-5), "padding changes an answer"
    assert model.config.id2label == {0: "negative", 1: "positive"}


@pytest.mark.parametrize("name", ["bilstm", "pkd-last", "tinybert"])
def test_pairs_of_texts(name, teacher, pairs, tmp_path):
    distilled(name, teacher, pairs, tmp_path / "run", "--data.text-column", "first", "--data.pair-column", "second")
    assert Record.load(tmp_path / "run").data.columns["pair"] == "second"


def test_augmented_rows_are_written_counted_and_kept_from_the_baseline(teacher, texts, tmp_path):
    out = tmp_path / "run"
    said = limbeck(
        "distill", "--recipe", "tinybert", "--teacher", teacher, "--data", texts, "--out", out, *QUICK[:-1],
        "--stages.intermediate.epochs", 1, "--augment.copies", 2,
    )  # fmt: skip
    assert said.code == 0, said.err
    (file,) = out.glob("augmented-*.jsonl")
    made = len(file.read_text().splitlines())
    assert made > 50
    record = Record.load(out)
    rows = record.data.splits["train"].rows
    steps = {arm.name: arm.runs[0].curve[-1].step for arm in record.arms if arm.role != "teacher"}
    assert steps["plain"] == -(-rows // 32)
    assert steps["distilled"] == 2 * -(-(rows + made) // 32)
    assert any(f"{made:,} augmented texts were labelled by the teacher" in note for note in record.notes)


def test_a_student_without_layers_is_refused_what_looks_at_layers(teacher, texts, tmp_path):
    said = limbeck(
        "distill", "--recipe", "pkd-skip", "--student.family", "bilstm", "--teacher", teacher, "--data", texts,
        "--out", tmp_path / "run", *QUICK,
    )  # fmt: skip
    assert said.code == 2
    assert "bilstm" in said.err
    assert "→" in said.err


@pytest.mark.parametrize("flags", [("--recipe", "bilstm", "--augment.copies", 1), ("--student.groups", 1)], ids=str)
@pytest.mark.usefixtures("forked_probes")
def test_a_student_of_our_own_is_timed_and_benched(flags, teacher, texts, tmp_path):
    """It is opened in a process of its own, where nothing has made it known yet."""
    brief = ("--measure.speed", "--measure.repeats", 1, "--measure.rounds", 5)
    out = tmp_path / "run"
    said = limbeck(
        "distill", "--teacher", teacher, "--data", texts, "--out", out, *flags, *brief,
        "--epochs", 1, "--measure.bootstrap", 200, "--no-baseline",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert Record.load(out).arm("distilled").speed.p50_ms > 0
    said = limbeck("eval", out / "student", "--data", texts, "--teacher", teacher)
    assert said.code == 0, said.err
