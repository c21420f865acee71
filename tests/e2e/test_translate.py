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

RECIPES_OF_PAIRS = [name for name, plan in RECIPES.items() if "translate" in plan.tasks and name != "finetune"]
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
    assert {"teacher", "plain", "distilled"} <= named
    assert [(artifact.arm, artifact.path) for artifact in record.artifacts] == [("distilled", "export/ctranslate2")]
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
        for path in (tmp_path / "run" / "teacher-cache" / "translations").rglob("*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    record = Record.load(tmp_path / "run")
    assert len({line["uid"] for line in lines}) == len(lines)
    assert len(lines) <= record.data.splits["train"].rows
    assert any("learnt from" in note for note in record.notes)
    of_teacher = AutoModelForSeq2SeqLM.from_pretrained(teacher).num_parameters()
    assert record.arm("teacher").size.parameters == of_teacher, "what is tied counts once"


def test_recipes_compare_in_one_command(teacher, data, tmp_path):
    run(
        "compare", "--recipes", "finetune,word-kd,seq-kd", "--teacher", teacher, *data, *BRIEF, *TUNE,
        "--epochs", 2, "--seeds", 2, "--out", tmp_path / "run",
    )  # fmt: skip
    record = Record.load(tmp_path / "run")
    assert {"teacher", "finetune", "word-kd", "seq-kd"} <= {arm.name for arm in record.arms}
    assert {c.than for c in record.comparisons if c.better in ("word-kd", "seq-kd")} == {"finetune"}
    assert len(record.arm("seq-kd").runs) == 2
    of_teacher = AutoModelForSeq2SeqLM.from_pretrained(teacher).num_parameters()
    assert record.arm("teacher").size.parameters == of_teacher


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
    assert "a command or an endpoint gives only translations" in said.err
    assert "seq-kd" in said.err


@pytest.mark.usefixtures("forked_probes")
def test_a_translator_is_evaluated_in_both_engines(teacher, data, tmp_path):
    distill("seq-kd", teacher, data, tmp_path / "run", "--no-baseline", "--export", "ctranslate2")
    (export,) = Record.load(tmp_path / "run").artifacts
    assert (export.engine, export.precision) == ("CTranslate2", "int8")
    assert export.figures["agreement"] > 0.8
    both = [tmp_path / "run" / name for name in ("student", "export/ctranslate2")]
    for model, flags in zip(both, (data, data[2:]), strict=True):  # the folder itself says that it translates
        said = run("eval", model, *flags, "--out", tmp_path / model.name)
        assert "bleu" in said.out.lower()
    a, b = (Record.load(tmp_path / model.name) for model in both)
    assert a.arms[0].mean("bleu") == pytest.approx(b.arms[0].mean("bleu"), abs=5)
    assert a.arms[0].size.parameters == b.arms[0].size.parameters
    assert a.data.splits["test"].rows == a.data.read == 400, "no row is read or measured twice"
    run("eval", both[0], *data, "--teacher", teacher, "--out", tmp_path / "beside")
    wrote = Record.load(tmp_path / "beside")
    assert 1 <= wrote.arm("teacher").mean("perplexity_of_teacher") < wrote.arm("student").mean("perplexity_of_teacher")
    few = ("--measure.repeats", 1, "--measure.rounds", 5, "--measure.threads", 1, "--beam", 2)
    run("bench", *both, "--data", data[3], *few, "--out", tmp_path / "bench")
    timed = Record.load(tmp_path / "bench")
    assert [arm.speed.engine for arm in timed.arms] == ["torch fp32", "ctranslate2 int8"]
    assert timed.task.kind == "translate"
    assert "a beam of 2" in (tmp_path / "bench" / "report.html").read_text(encoding="utf-8")


def test_without_ctranslate2_transformers_does_its_work(teacher, data, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    distill("seq-kd", teacher, data, tmp_path / "run", "--no-baseline", "--epochs", 1, "--translate.beam", 2)
    notes = Record.load(tmp_path / "run").notes
    assert any("translates in transformers, not in CTranslate2" in note for note in notes)
    assert any("CTranslate2 is not installed" in note for note in notes)
    assert not (tmp_path / "run" / "export/ctranslate2").exists()
