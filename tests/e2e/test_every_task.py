"""What holds for every task: recognised, compared, started from another model, resumed, evaluated with data in hand."""

import re

import pytest

import limbeck as library
from limbeck import Model, Shrink
from limbeck.core.record import Record
from running import BLOCKS, QUICK, WORDS, limbeck
from tiny import make_classifier, make_rows, make_tokenizer
from tiny_language import byte_level, make_causal, make_masked, make_text
from tongues import sentences, translate, write_pairs
from untaught import BRIEF, NEW, make_teacher, of_files, program, told

FAST = {"train": {"epochs": 1, "learning_rate": 1e-3}, "measure": {"speed": False, "bootstrap": 200}}
LANGUAGE = {"blocks": {"length": 16}, "train": {"epochs": 1, "batch_size": 16}, "measure": FAST["measure"]}
ROWS = 120


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    sources = sentences(ROWS)
    return make_teacher(tmp_path_factory.mktemp("untaught") / "teacher", [*sources, *map(translate, sources)])


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("pairs"), ROWS)


def without_task(words):
    """The same command, the task left to the model."""
    place = words.index("--task")
    return (*words[:place], *words[place + 2 :])


def ended(*words):
    said = limbeck(*words)
    assert said.code == 0, said.err
    return Record.load(words[words.index("--out") + 1])


# Which task it is, is seen.


@pytest.mark.parametrize(("kind", "model"), [("mask-fill", "masked"), ("generate", "causal")])
def test_a_language_model_is_recognised(kind, model, corpus, tmp_path, request):
    teacher = request.getfixturevalue(model)
    record = ended(
        "distill", "--teacher", teacher, "--data", corpus, *WORDS, "--no-baseline", "--out", tmp_path / "run"
    )
    assert record.task.kind == kind
    assert record.knobs["recipe"] == "truncated"
    assert record.metric == "perplexity"


def test_a_translator_is_recognised(translator, pairs, tmp_path):
    given = ("--recipe", "word-kd", "--teacher", translator, *without_task(of_files(pairs)), *BRIEF)
    record = ended("distill", *given, "--out", tmp_path / "run")
    assert record.task.kind == "translate"
    assert record.metric == "bleu"


# Language models compare like anything else.


@pytest.mark.parametrize("kind", ["mask-fill", "generate"])
def test_recipes_of_language_models_compare_within_a_budget(kind, tmp_path):
    tokenizer = make_tokenizer() if kind == "mask-fill" else byte_level()
    teacher = make_masked(layers=2) if kind == "mask-fill" else make_causal(tokenizer)
    given = {"tokenizer": tokenizer, "out": tmp_path / "run", "task": kind, "budget_minutes": 1e-6, **LANGUAGE}
    found = library.compare(teacher, make_text(40), student=Shrink(layers=1), **given)
    assert {arm.name: arm.role for arm in found.record.arms} == {
        "teacher": "teacher",
        "finetune": "baseline",
        "truncated": "student",
    }
    assert [(one.better, one.than, one.metric) for one in found.record.comparisons] == [
        ("truncated", "finetune", "perplexity")
    ]
    assert found.record.failed == []
    assert found.record.floor.title == "unigrams of train"
    for name in ("finetune", "truncated"):
        assert found.record.arm(name).runs[0].curve[-1].step == 1
        assert found.record.arm(name).runs[0].fidelity.divergence > 0
    assert any(note.startswith("A budget of 1e-06 min") for note in found.record.notes)
    assert not (tmp_path / "run" / "timing").exists()
    assert found.models.keys() == {"finetune", "truncated"}
    settled = (tmp_path / "run" / "budget.json").read_text()
    again = library.compare(teacher, make_text(40), student=Shrink(layers=1), resume=True, **given)
    assert (tmp_path / "run" / "budget.json").read_text() == settled
    assert [arm.runs for arm in again.record.arms] == [arm.runs for arm in found.record.arms]


def test_compare_of_masked_models_by_flags(masked, corpus, tmp_path):
    how = ("--task", "mask-fill", "--teacher", masked, "--data", corpus, "--student.layers", 1, *WORDS)
    record = ended("compare", *how, "--recipes", "finetune,truncated,hinton", "--out", tmp_path / "run")
    assert {"teacher", "finetune", "truncated"} == {arm.name for arm in record.arms}
    assert [failure.arm for failure in record.failed] == ["hinton"]
    assert "does not serve --task mask-fill" in record.failed[0].reason


# A student may start from another model, and be made smaller than that.


def names(note, before, folder):
    """The folder follows, without where it is on this machine."""
    found = re.match(rf"{before}(\S*{folder.parent.name}/{folder.name})\. ", note)
    return bool(found) and not found[1].startswith("/")


def test_a_language_model_starts_from_another_made_smaller(masked, corpus, tmp_path):
    how = ("--task", "mask-fill", "--teacher", masked, "--student-from", masked, "--data", corpus, *WORDS)
    record = ended("distill", *how, "--student.layers", 1, "--student.keep", "first", "--out", tmp_path / "run")
    assert record.arm("distilled").shape.layers == record.arm("plain").shape.layers == 1
    assert record.arm("teacher").shape.layers == 4
    assert any(names(note, "From ", masked) for note in record.notes)


def test_a_translator_starts_from_another_made_smaller(translator, pairs, tmp_path):
    how = ("--recipe", "word-kd", "--teacher", translator, "--student-from", translator, *of_files(pairs), *BRIEF)
    record = ended("distill", *how, "--student.hidden", 8, "--student.heads", 2, "--out", tmp_path / "run")
    assert record.arm("distilled").shape.hidden == 8 < record.arm("teacher").shape.hidden
    assert any(names(note, "From ", translator) for note in record.notes)


# The Record says what was done.


def test_the_objective_of_every_step_is_named_and_cited(taught, reviews, tmp_path):
    stages = {"warm": {"epochs": 1.0, "objective": {"minilmv2": {}}}}
    given = {"student": Shrink(layers=1), "recipe": "hinton", "stages": stages, "out": tmp_path / "run", **FAST}
    record = library.distill(taught, reviews, **given).record
    warm, main = record.arm("distilled").objective.split("; then ")
    assert "MiniLMv2" in warm
    assert "SoftTargets" in main
    assert "Labels" in main
    assert "; then " not in record.arm("plain").objective
    cited = " ".join(citation.text for citation in record.citations)
    assert "Hinton" in cited
    assert "MiniLMv2" in cited


@pytest.mark.usefixtures("forked_probes")
def test_eval_records_hold_their_knobs_and_bench_records_their_task(masked, corpus, tmp_path):
    given = ("eval", masked, "--task", "mask-fill", "--data", corpus, *BLOCKS, "--mask.share", 0.2)
    record = ended(*given, "--out", tmp_path / "eval")
    assert record.knobs["model"].endswith(f"{masked.parent.name}/{masked.name}")
    assert record.knobs["blocks"]["length"] == 16
    assert record.knobs["mask"]["share"] == 0.2
    assert record.knobs["data"]["train"].endswith(f"{corpus.parent.name}/{corpus.name}")
    assert record.task.kind == "mask-fill"
    few = ("--measure.repeats", 1, "--measure.rounds", 5, "--measure.threads", 1)
    assert ended("bench", masked, *few, "--out", tmp_path / "bench").task.kind == "mask-fill"


# Speed and display may change when a run is resumed; what is trained may not.


def test_a_run_is_resumed_with_other_threads_and_not_with_other_epochs(taught, reviews, tmp_path):
    job = ("distill", "--teacher", taught, "--data", reviews, *QUICK, "--no-baseline", "--out", tmp_path / "run")
    first = ended(*job, "--train.threads", 1)
    (tmp_path / "run" / "record.json").unlink()
    again = ended(*job, "--resume", "--train.threads", 2, "--measure.repeats", 2)
    assert [arm.runs for arm in again.arms] == [arm.runs for arm in first.arms]
    assert (again.knobs["train"]["threads"], again.knobs["measure"]["repeats"]) == (2, 2)
    said = limbeck(*job, "--resume", "--epochs", 2)
    assert said.code == 2
    assert "train.epochs: 1.0 → 2.0" in said.err
    assert "threads" not in said.err


# A teacher that cannot teach says why.


def test_a_teacher_whose_translations_fail_the_filters_is_refused_by_what_it_wrote(pairs, tmp_path):
    command, out = program(tmp_path, "print(*sources, sep='\\n')"), tmp_path / "run"
    said = limbeck("distill", *of_files(pairs), "--translate.command", command, *NEW, *BRIEF, "--out", out)
    problem, remedy = told(said)
    assert "translations pass the filters" in problem
    some = problem.split("It writes: ")[1].split(" → ")
    assert some[0] == some[1].split("; ")[0], "a copy of its source"
    assert "limbeck eval --task translate" in remedy
    assert "--translate.copies" in remedy


# Data in hand is evaluated whole.


@pytest.mark.parametrize("kind", ["mask-fill", "generate"])
def test_a_language_model_is_evaluated_on_texts_in_hand(kind, tmp_path):
    tokenizer = make_tokenizer() if kind == "mask-fill" else byte_level()
    network = make_masked(layers=2) if kind == "mask-fill" else make_causal(tokenizer)
    texts, file = make_text(40), tmp_path / "texts.txt"
    file.write_text("\n\n".join(texts), encoding="utf-8")
    how = {"tokenizer": tokenizer, "task": kind, "blocks": {"length": 16}}
    ours, written = (library.evaluate(network, data, **how) for data in (texts, file))
    assert ours.task.kind == kind
    assert ours.data.splits["test"].rows == written.data.splits["test"].rows > 20
    assert ours.arms[0].runs[0].quality == written.arms[0].runs[0].quality
    assert ours.floor == written.floor
    assert ours.floor.title == "unigrams of test"
    beside = library.evaluate(network, texts, teacher=Model(network, tokenizer), **how)
    assert beside.arm("student").runs[0].fidelity.agreement == 1.0


def test_a_translator_is_evaluated_on_rows_in_hand(translator, pairs):
    sources = sentences(30, seed=3)
    rows = [{"source": source, "target": translate(source)} for source in sources]
    record = library.evaluate(translator, rows, task="translate")
    assert record.task.kind == "translate"
    assert record.data.splits["test"].rows == 30
    assert {"bleu", "chrf", "perplexity"} <= record.arms[0].runs[0].quality.keys()
    assert record.samples[0].source in sources
    assert record.floor.title == "copied source"


def test_texts_with_labels_are_evaluated_in_hand(taught):
    record = library.evaluate(make_classifier(), make_rows(60), tokenizer=make_tokenizer(), teacher=taught)
    assert record.data.splits["test"].rows == 60
    assert record.arm("student").runs[0].fidelity is not None
