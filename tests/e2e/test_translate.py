"""Translators from the command line: a teacher from two files, students by every recipe, black boxes, refusals."""

import json
import sys
from pathlib import Path

import pytest
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import tongues
from limbeck.core.record import Record
from limbeck.recipes import RECIPES
from running import limbeck
from tongues import BRIEF, TUNE, run, sentences, tiny, translate, write_pairs

RECIPES_OF_PAIRS = [name for name, plan in RECIPES.items() if "translate" in plan.serves and name != "finetune"]
TINY = tiny(2)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    source = write_pairs(tmp_path_factory.mktemp("pairs"), 400)
    return ("--task", "translate", "--data", source, "--target", source.with_suffix(".de"))


@pytest.fixture(scope="module")
def teacher(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "teacher"
    run("train", *data, *TINY, *BRIEF, *TUNE, "--epochs", 12, "--out", out)
    assert Record.load(out).arms[0].mean("bleu") > 60, "the teacher has not learnt its words"
    return out / "model"


def distill(recipe, teacher, data, out, *flags):
    return run(
        "distill", "--recipe", recipe, "--teacher", teacher, *data, *BRIEF, *TUNE, "--epochs", 3, "--out", out, *flags
    )


def test_a_teacher_from_two_files_is_a_model_of_transformers(teacher):
    model = AutoModelForSeq2SeqLM.from_pretrained(teacher)
    tokenizer = AutoTokenizer.from_pretrained(teacher)
    sources = sentences(20, seed=9)
    written = tokenizer.batch_decode(
        model.generate(**tokenizer(sources, padding=True, return_tensors="pt"), max_new_tokens=20),
        skip_special_tokens=True,
    )
    assert sum(text == translate(source) for text, source in zip(written, sources, strict=True)) > 10


@pytest.mark.parametrize("recipe", RECIPES_OF_PAIRS)
def test_every_recipe_ends_in_a_student_and_a_report(recipe, teacher, data, tmp_path):
    distill(recipe, teacher, data, tmp_path / "run", *(("--stages.interpolate.epochs", 1) if "inter" in recipe else ()))
    record = Record.load(tmp_path / "run")
    named = {arm.name for arm in record.arms}
    assert {"teacher", "plain", "distilled", "student-int8"} <= named
    for arm in ("teacher", "plain", "distilled"):
        assert {"bleu", "bleu_beam", "chrf", "perplexity", "perplexity_of_teacher", "p_best"} <= set(
            record.arm(arm).runs[0].quality
        )
    assert set(record.samples[0].written) == {"teacher", "plain", "distilled"}
    assert (tmp_path / "run" / "report.html").exists()
    assert AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "run" / "student").num_parameters() > 0


def test_translations_are_kept_with_their_sources(teacher, data, tmp_path):
    distill("seq-kd", teacher, data, tmp_path / "run", "--no-baseline")
    lines = [
        json.loads(line)
        for path in (tmp_path / "run" / "teacher-answers" / "translations").rglob("*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    record = Record.load(tmp_path / "run")
    assert len({line["uid"] for line in lines}) == len(lines)
    assert len(lines) <= record.data.splits["train"].rows
    assert any("learnt from" in note for note in record.notes)


def test_recipes_compare_in_one_command(teacher, data, tmp_path):
    run(
        "compare", "--recipes", "finetune,word-kd,seq-kd", "--teacher", teacher, *data, *BRIEF, *TUNE,
        "--epochs", 2, "--seeds", 2, "--out", tmp_path / "run",
    )  # fmt: skip
    record = Record.load(tmp_path / "run")
    assert {"teacher", "finetune", "word-kd", "seq-kd"} <= {arm.name for arm in record.arms}
    assert {c.than for c in record.comparisons if c.better in ("word-kd", "seq-kd")} == {"finetune"}
    assert len(record.arm("seq-kd").runs) == 2


def test_a_program_that_only_translates_can_teach(data, tmp_path):
    program = tmp_path / "translate.py"
    program.write_text(
        f"import sys; sys.path.insert(0, {str(Path(tongues.__file__).parent)!r})\n"
        "from tongues import translate\n"
        "for line in sys.stdin.read().split('\\n')[:-1]: print(translate(line))\n"
    )
    command = f"{sys.executable} {program}"
    run(
        "distill", *data, "--translate.command", command, *TINY, *BRIEF, *TUNE, "--epochs", 12,
        "--translate.metric", "chrf", "--out", tmp_path / "run",
    )  # fmt: skip
    record = Record.load(tmp_path / "run")
    assert record.metric == "chrf"
    assert all("chrf" in point.dev for point in record.arm("distilled").runs[0].curve if point.dev)
    assert record.arm("teacher").mean("bleu") == pytest.approx(100)
    assert record.arm("distilled").mean("bleu") > 40


def test_what_a_black_box_cannot_teach_is_refused(data, tmp_path):
    said = limbeck("distill", *data, "--translate.command", "cat", "--recipe", "word-kd", "--out", tmp_path / "run")
    assert said.code == 2
    assert "only its translations are known" in said.err
    assert "seq-kd" in said.err


def test_a_translator_is_evaluated_in_both_engines(teacher, data, tmp_path):
    distill("seq-kd", teacher, data, tmp_path / "run", "--no-baseline")
    for model in ("student", "student-int8"):
        said = run("eval", tmp_path / "run" / model, *data, "--out", tmp_path / model)
        assert "bleu" in said.out.lower()
    a, b = (Record.load(tmp_path / model).arms[0].mean("bleu") for model in ("student", "student-int8"))
    assert a == pytest.approx(b, abs=5)
