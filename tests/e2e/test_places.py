"""Words tagged and questions answered, by the command line from a file to a page."""

import contextlib
import io
import json
import re
import signal

import pytest
from transformers import AutoModelForQuestionAnswering, AutoModelForTokenClassification, pipeline

import limbeck as library
from limbeck.core.record import Record
from running import QUICK, files, limbeck, start, stop
from tiny import VOCABULARY, make_tokenizer
from tiny_places import TAGS, make_questions, make_reader, make_sentences, make_tagger

LEARN = (*QUICK, "--learning-rate", "3e-3", "--batch-size", 8, "--train.threads", 1)
AUTO = {"tag": AutoModelForTokenClassification, "answer": AutoModelForQuestionAnswering}


def conll(path, rows):
    sentences = ["".join(map("{} {}\n".format, row["tokens"], row["tags"])) for row in rows]
    path.write_text("\n".join(sentences))
    return path


def squad(path, rows):
    def asked(number, row):
        pairs = zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True)
        answers = [{"text": text, "answer_start": start} for text, start in pairs]
        return {"context": row["context"], "qas": [{"id": number, "question": row["question"], "answers": answers}]}

    paragraphs = [asked(number, row) for number, row in enumerate(rows)]
    path.write_text(json.dumps({"data": [{"title": "", "paragraphs": paragraphs}]}))
    return path


def save(model, folder, tokenizer=None):
    model.save_pretrained(folder)
    (tokenizer or make_tokenizer()).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=["tag", "answer"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def data(kind, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    make, write, ending = (make_sentences, conll, "conll") if kind == "tag" else (make_questions, squad, "json")
    return {
        split: write(folder / f"{split}.{ending}", make(rows, seed=seed))
        for split, rows, seed in (("train", 160, 0), ("dev", 30, 1), ("test", 60, 2))
    }


@pytest.fixture(scope="module")
def fitted(kind, data, tmp_path_factory):
    place = tmp_path_factory.mktemp("fit")
    model = save(make_tagger(layers=3) if kind == "tag" else make_reader(layers=3), place / "start")
    given = ("--data", data["train"], "--data.dev", data["dev"], "--data.test", data["test"])
    said = limbeck("train", "--task", kind, "--model", model, *given, "--out", place / "run", *LEARN, "--epochs", 6)
    assert said.code == 0, said.err
    return place / "run", said


@pytest.fixture(scope="module")
def job(kind, data, fitted):
    given = ("--data", data["train"], "--data.dev", data["dev"], "--data.test", data["test"])
    return ("distill", "--task", kind, "--teacher", fitted[0] / "model", *given, *LEARN, "--student.layers", 1)


@pytest.fixture(scope="module")
def distilled(job, tmp_path_factory):
    out = tmp_path_factory.mktemp("distil") / "run"
    said = limbeck(*job, "--out", out)
    assert said.code == 0, said.err
    return out, said


def test_train_makes_a_model_that_transformers_opens(kind, fitted):
    folder, said = fitted
    record = Record.load(folder)
    assert record.metric == "f1"
    assert record.arms[0].mean("f1") > 0.7
    assert record.data.splits["test"].rows == 60
    assert "F1" in said.out
    model, info = AUTO[kind].from_pretrained(folder / "model", output_loading_info=True)
    assert not info["missing_keys"]
    assert model.config.problem_type is None
    if kind == "tag":
        assert list(model.config.id2label.values()) == sorted(TAGS, key=lambda tag: (tag != "O", tag))


def test_distill_measures_three_models_on_sentences_or_questions(kind, distilled):
    folder, said = distilled
    record = Record.load(folder)
    assert [arm.name for arm in record.arms] == ["teacher", "plain", "distilled"]
    assert record.metric == "f1"
    assert record.arm("distilled").mean("f1") > 0.6
    compared = record.comparisons[0]
    assert compared.rows == 60
    assert f"60 test {'sentences' if kind == 'tag' else 'questions'}" in compared.sentence
    assert compared.difference == pytest.approx(record.arm("distilled").mean("f1") - record.arm("plain").mean("f1"))
    near = record.arm("distilled").runs[0].fidelity
    assert near.agreement > 0.7
    assert near.teacher_right_rows > near.teacher_wrong_rows
    assert record.arm("teacher").runs[0].fidelity is None
    assert record.floor.title.startswith("most frequent tag (O)" if kind == "tag" else "most frequent answer (")
    assert record.floor.quality["f1"] < record.arm("plain").mean("f1")
    labels = {score.label for score in record.arm("teacher").runs[0].per_class}
    assert labels == ({"GOOD", "BAD"} if kind == "tag" else set())
    assert record.arm("distilled").runs[0].curve[-1].terms.keys() == {"labels", "soft"}
    assert "agrees" in said.out
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert ("sentence" if kind == "tag" else "question") in page
    assert not [name for name in files(folder) if "checkpoint" in name or ".part" in name or ".lock" in name]


def test_the_student_is_used_as_its_card_says(kind, distilled):
    folder, _ = distilled
    card = (folder / "student" / "README.md").read_text()
    assert f"pipeline_tag: {'token-classification' if kind == 'tag' else 'question-answering'}" in card
    snippet = re.search(r"## Use\n\n```python\n(.*?)```", card, re.DOTALL)[1]
    texts = {
        "path/to/this/folder": str(folder / "student"),
        "a text with words to tag": "the plot was dull and the actor",
        "What is asked?": "bad",
        "A text that holds the answer.": "the plot was dull and the actor",
    }
    for old, new in texts.items():
        snippet = snippet.replace(old, new)
    seen = io.StringIO()
    with contextlib.redirect_stdout(seen):
        exec(snippet, {})
    assert "dull" in seen.getvalue()


def test_a_tagger_serves_the_pipeline_of_transformers(kind, distilled):
    if kind == "answer":
        pytest.skip("transformers 5 has no pipeline for questions")
    tag = pipeline("token-classification", model=str(distilled[0] / "student"))
    assert [(found["word"], found["entity"]) for found in tag("the plot was dull")] == [("dull", "B-BAD")]


def test_kept_answers_teach_what_live_ones_do(job, distilled, tmp_path):
    said = limbeck(*job, "--out", tmp_path / "live", "--teacher-cache.live", "--no-baseline")
    assert said.code == 0, said.err
    assert not (tmp_path / "live" / "teacher-cache").exists()
    kept, live = (Record.load(folder).arm("distilled").runs[0] for folder in (distilled[0], tmp_path / "live"))
    assert live.quality == pytest.approx(kept.quality, abs=0.02)
    assert [point.loss for point in live.curve] == pytest.approx([point.loss for point in kept.curve], rel=1e-3)
    assert live.fidelity.divergence == pytest.approx(kept.fidelity.divergence, rel=1e-2)
    assert Record.load(distilled[0]).arm("teacher").runs == Record.load(tmp_path / "live").arm("teacher").runs


def test_eval_finds_what_distill_found(kind, data, fitted, distilled, tmp_path):
    """The kind of a model needs not be said."""
    student = distilled[0] / "student"
    said = limbeck(
        "eval", student, "--data", data["test"], "--teacher", fitted[0] / "model", "--out", tmp_path / "eval"
    )
    assert said.code == 0, said.err
    found, before = Record.load(tmp_path / "eval"), Record.load(distilled[0])
    assert found.task.kind == kind
    assert found.arm("student").runs[0].quality == pytest.approx(before.arm("distilled").runs[0].quality)
    assert found.arm("student").runs[0].fidelity.agreement == before.arm("distilled").runs[0].fidelity.agreement
    assert found.arm("teacher").runs[0].quality == pytest.approx(before.arm("teacher").runs[0].quality)
    for name, value in found.arm("student").runs[0].quality.items():
        assert name in said.out
        assert f"{value:.4f}" in said.out


@pytest.mark.usefixtures("forked_probes")
def test_bench_and_report(kind, data, fitted, distilled, tmp_path):
    """The kind of a model needs not be said."""
    few = ("--measure.repeats", 1, "--measure.rounds", 5, "--measure.threads", 1)
    given = ("--data", data["test"], "--out", tmp_path / "bench")
    said = limbeck("bench", distilled[0] / "student", *given, *few)
    assert said.code == 0, said.err
    timed = Record.load(tmp_path / "bench")
    assert timed.task.kind == kind
    assert timed.arms[0].speed.p50_ms > 0
    page = tmp_path / "page.html"
    said = limbeck("report", fitted[0], distilled[0], tmp_path / "bench", "--out", page)
    assert said.code == 0, said.err
    assert "F1" in page.read_text(encoding="utf-8")


def test_a_killed_run_ends_like_an_unbroken_one(kind, job, distilled, tmp_path):
    if kind == "answer":
        pytest.skip("one kind suffices: cells and checkpoints are the same")
    out = tmp_path / "run"

    def begun():
        return any((out / "arms" / "distilled-seed0").glob("checkpoints-*/checkpoint-*/complete"))

    stop(start(*job, "--out", out), begun, signal.SIGKILL)
    assert not (out / "record.json").exists()
    said = limbeck("distill", "--resume", "--out", out)
    assert said.code == 0, said.err
    weights = "student/model.safetensors"
    assert (out / weights).read_bytes() == (distilled[0] / weights).read_bytes()
    assert Record.load(out).comparisons == Record.load(distilled[0]).comparisons


def test_recipes_side_by_side_leave_out_what_does_not_serve(kind, job, tmp_path):
    """PKD speaks of whole texts."""
    recipes = "finetune,hinton,pkd-skip,minilmv2,albert"
    few = ("--train.epochs", 0.2, "--train.evals-per-epoch", 1, "--student.layers", 2)
    said = limbeck("compare", *job[1:], "--recipes", recipes, "--out", tmp_path / "compare", *few)
    assert said.code == 0, said.err
    record = Record.load(tmp_path / "compare")
    assert {"teacher", "finetune", "hinton", "minilmv2", "albert"} <= {arm.name for arm in record.arms}
    assert [failure.arm for failure in record.failed] == ["pkd-skip"]
    assert f"--task {kind}" in record.failed[0].reason
    assert {one.better for one in record.comparisons} == {"hinton", "minilmv2", "albert"}
    assert "test sentences" in record.comparisons[0].sentence or kind == "answer"


def test_without_labels_the_teacher_is_all_there_is(kind, fitted, tmp_path):
    make, label = (make_sentences, "tags") if kind == "tag" else (make_questions, "answers")
    rows = [{name: value for name, value in row.items() if name != label} for row in make(120)]
    file = tmp_path / "bare.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ("--teacher", fitted[0] / "model", "--data", file, "--student.layers", 1, *LEARN)
    shares = ("--data.dev-share", 0.2, "--data.test-share", 0.2)
    said = limbeck("distill", *given, *shares, "--out", tmp_path / "run")
    assert said.code == 0, said.err
    record = Record.load(tmp_path / "run")
    assert [arm.name for arm in record.arms] == ["teacher", "distilled"]
    run = record.arm("distilled").runs[0]
    assert run.quality == {}
    assert run.fidelity.agreement > 0.6
    assert all(0 <= point.dev["agreement"] <= 1 for point in run.curve if point.dev)
    assert any("agreement with the teacher" in note for note in record.notes)
    said = limbeck("train", "--task", kind, "--model", fitted[0] / "model", "--data", file, "--out", tmp_path / "fit")
    assert said.code == 2
    assert "tag" in said.err if kind == "tag" else "no labels" in said.err


# Rows without labels that join train


@pytest.fixture(scope="module")
def more(kind, data, tmp_path_factory):
    """New rows with gold that nobody is to learn from, and rows of test."""
    path = tmp_path_factory.mktemp("more") / "more.jsonl"
    make, texts = (make_sentences, "tokens") if kind == "tag" else (make_questions, "context")
    rows = [*make(90, seed=7), *make(60, seed=2)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path, len({str(row[texts]) for row in rows[:90]})


@pytest.fixture(scope="module")
def transferred(job, more, tmp_path_factory):
    out = tmp_path_factory.mktemp("transfer") / "run"
    said = limbeck(*job, "--unlabelled", more[0], "--out", out)
    assert said.code == 0, said.err
    return out, said


def test_unlabelled_rows_teach_by_the_teacher_alone(kind, transferred, distilled, more):
    """What is measured on stays as it is without the file."""
    folder, said = transferred
    record, before = Record.load(folder), Record.load(distilled[0])
    train = record.data.splits["train"]
    fresh = record.data.sources[-1].used
    assert 60 < fresh <= more[1]
    assert train.rows - train.labelled == fresh
    assert train.labelled == before.data.splits["train"].rows
    for split in ("dev", "test"):
        assert record.data.splits[split] == before.data.splits[split]
    assert record.arm("teacher").runs == before.arm("teacher").runs
    steps, steps_before = (one.arm("distilled").runs[0].curve[-1].step for one in (record, before))
    assert steps == pytest.approx(steps_before * train.rows / train.labelled, abs=1)
    alone = f"trained on the {train.labelled} labelled rows alone"
    assert any(alone in note for note in record.notes)
    assert any(f"{fresh:,} training rows have no label; only the teacher's terms" in note for note in record.notes)
    assert "is ignored; the teacher answers these" in said.err


def test_every_source_says_what_it_gave(transferred):
    folder, said = transferred
    record = Record.load(folder)
    assert [one.gives for one in record.data.sources] == ["train", "dev", "test", "unlabelled"]
    bare = record.data.sources[-1]
    assert bare.read == 150
    assert bare.dropped["also in test"] >= 60
    assert bare.used + sum(bare.dropped.values()) == 150
    for place in (said.err, (folder / "report.html").read_text(), (folder / "student" / "README.md").read_text()):
        assert f"{bare.used} of 150 rows for the teacher to answer" in place.replace("\\", "")


def test_raw_rows_alone_are_learnt_from_by_agreement(kind, fitted, tmp_path):
    """Sentences are lines of plain text."""
    raw = tmp_path / "raw.txt"
    if kind == "tag":
        raw.write_text("".join(" ".join(row["tokens"]) + "\n" for row in make_sentences(120, seed=5)))
    else:
        raw = tmp_path / "raw.json"
        squad(raw, [{**row, "answers": {"text": [], "answer_start": []}} for row in make_questions(120, seed=5)])
    given = ("--teacher", fitted[0] / "model", "--unlabelled", raw, "--student.layers", 1, *LEARN)
    shares = ("--data.dev-share", 0.2, "--data.test-share", 0.2)
    said = limbeck("distill", *given, *shares, "--out", tmp_path / "run")
    assert said.code == 0, said.err
    record = Record.load(tmp_path / "run")
    assert [arm.name for arm in record.arms] == ["teacher", "distilled"]
    assert record.arm("distilled").runs[0].quality == {}
    assert record.arm("distilled").runs[0].fidelity.agreement > 0.5
    assert "No row has a label: F1 is not known" in " ".join(said.out.split())


@pytest.fixture
def refused(kind, job, tmp_path):
    def run(*more, verb=()):
        out = tmp_path / "out" / "run"
        said = limbeck(*(verb or job), *more, "--out", out)
        assert said.code == 2, said
        assert "Traceback" not in said.err
        problem, remedy = said.err.split("limbeck: ", 1)[1].split("\n  → ")
        assert remedy.strip()
        assert not out.exists()
        return problem, remedy

    return run


def test_a_wrong_column(kind, refused):
    if kind == "tag":
        problem, remedy = refused("--windows.tag-column", "9")
        assert "train.conll" in problem
        assert "from 1 to 2" in remedy
    else:
        problem, remedy = refused("--windows.question-column", "asked")
        assert "has no column 'asked'; its columns: " in problem
        assert "--windows.question-column" in remedy


def test_data_that_contradicts_itself(kind, refused, tmp_path):
    file = tmp_path / "bad.jsonl"
    rows = make_sentences(30) if kind == "tag" else make_questions(30)
    if kind == "tag":
        rows[4]["tags"] = rows[4]["tags"][:-1]
    else:
        rows = [{**row, "answers": {"text": ["somewhere else"], "answer_start": [0]}} for row in rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    problem, remedy = refused("--data", file)
    assert "bad.jsonl" in problem
    if kind == "tag":
        assert "line 5" in problem or "row 5" in problem
        assert "one tag" in remedy
    else:
        assert "30 rows: answer that does not occur in its text" in remedy


def test_an_unlabelled_file_that_cannot_serve(kind, refused, data, tmp_path):
    problem, _ = refused("--unlabelled", tmp_path / "nowhere.jsonl")
    assert "there is no file" in problem
    (tmp_path / "other.csv").write_text("colour,size\nred,3\nblue,4\n")
    problem, remedy = refused("--unlabelled", tmp_path / "other.csv")
    assert "its columns: colour, size" in problem
    assert f"--windows.{'word' if kind == 'tag' else 'question'}-column" in remedy
    problem, remedy = refused("--unlabelled", data["train"])
    assert f"no {'sentence' if kind == 'tag' else 'question'} of it is new" in problem
    assert "also in train" in problem
    assert "same file" in refused("--unlabelled", data["test"])[0]


def test_a_tag_that_train_does_not_know(kind, refused, tmp_path):
    if kind == "answer":
        pytest.skip("answers have no tags")
    rows = make_sentences(20, seed=4)
    rows[0]["tags"][0] = "B-NEW"
    problem, _ = refused("--data.test", conll(tmp_path / "new.conll", rows))
    assert "B-NEW" in problem


def taught_by(job, teacher):
    """The same job with another teacher: a second --teacher would be averaged with the first."""
    place = job.index("--teacher") + 1
    return (*job[:place], teacher, *job[place + 1 :])


def test_a_teacher_of_other_tags_or_of_another_kind(kind, refused, job, data, tmp_path, fitted):
    if kind == "tag":
        other = save(make_tagger(("O", "B-PER", "I-PER")), tmp_path / "other")
        problem, _ = refused(verb=taught_by(job, other))
        assert "B-PER" in problem
        assert "B-GOOD" in problem
    wrong = "answer" if kind == "tag" else "tag"
    problem, remedy = refused("--task", wrong)
    assert "has no" in problem or "column" in problem
    bare = save(make_tagger().bert, tmp_path / "bare")
    problem, remedy = refused(verb=taught_by(job, bare))
    assert "head" in problem
    assert f"limbeck train --task {kind}" in remedy


def test_what_places_cannot_have(kind, refused, tmp_path):
    problem, remedy = refused("--recipe", "pkd-skip")
    assert f"does not serve --task {kind}" in problem
    assert "hinton" in remedy
    assert f"'augment.kind' has no effect for --task {kind}" in refused("--augment.kind", "bilstm")[0]
    assert f"does not serve --task {kind}" in refused("--student.family", "bilstm")[0]
    words = {word: place for place, word in enumerate([*VOCABULARY[:5], *reversed(VOCABULARY[5:])])}
    tokenizer = type(make_tokenizer())(vocab=words, model_max_length=64)
    other = save(make_tagger(layers=1), tmp_path / "other", tokenizer)
    problem, remedy = refused("--student-from", other, "--student.layers", 0)
    assert "different tokenizers" in problem
    assert "--student-from" in remedy


def test_the_same_from_python(kind, fitted, tmp_path):
    rows = make_sentences(80, seed=3) if kind == "tag" else make_questions(80, seed=3)
    result = library.distill(
        fitted[0] / "model",
        {"train": rows[:60], "dev": rows[60:70], "test": rows[70:]},
        library.Shrink(layers=1),
        reading={"task": kind},
        windows={"longest_answer": 3},
        train={"epochs": 1, "learning_rate": 3e-3},
        measure={"speed": False, "bootstrap": 200},
        out=tmp_path / "run",
    )
    assert isinstance(result.student, AUTO[kind].from_pretrained(tmp_path / "run" / "student").__class__)
    assert result.record.knobs["windows"]["longest_answer"] == 3
    assert result.record.arm("distilled").runs[0].quality["f1"] >= 0
