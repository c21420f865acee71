"""What a verb gives back: a folder that answers right, a table, and nothing left behind."""

import contextlib
import gc
import inspect
import os
import tempfile
from pathlib import Path

import pytest
from transformers import AutoTokenizer, pipeline

import limbeck
from limbeck.core.errors import KnobError, LimbeckError
from tiny import make_classifier, make_rows, make_tokenizer

FAST = {"epochs": 0.2, "baseline": False, "measure": {"speed": False, "bootstrap": 200}}
TEXTS = ["a good film", "a bad plot and a dull story", "x"]
VERBS = ("train", "distill", "compare", "evaluate", "bench", "predict")


@pytest.fixture(scope="module")
def result():
    tokenizer = make_tokenizer()
    tokenizer.padding_side = "left"
    return limbeck.distill(make_classifier(), make_rows(150), layers=1, tokenizer=tokenizer, **FAST)


def test_the_saved_folder_answers_as_the_student(result, tmp_path):
    assert result.save(tmp_path / "small") == tmp_path / "small"
    opened = pipeline("text-classification", model=str(tmp_path / "small"), device="cpu")
    for text, found in zip(TEXTS, opened(TEXTS), strict=True):
        logits = result.student(**result.tokenizer(text, return_tensors="pt")).logits[0]
        assert found["label"] == result.student.config.id2label[logits.argmax().item()]
        assert abs(found["score"] - logits.softmax(-1).max().item()) < 1e-5
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "small")
    assert (tokenizer.model_max_length, tokenizer.padding_side) == (64, "left")
    assert tokenizer.get_vocab() == make_tokenizer().get_vocab()
    assert "limbeck" in (tmp_path / "small" / "README.md").read_text()
    mask = os.umask(0)
    os.umask(mask)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "small").iterdir()} == {0o666 & ~mask}
    assert (tmp_path / "small").stat().st_mode & 0o777 == 0o777 & ~mask
    assert result.save(tmp_path / "small", "distilled").is_dir(), "an earlier save is replaced"


@pytest.mark.parametrize("name", ["notes.txt", "model.safetensors"])
def test_what_is_foreign_is_never_replaced(result, tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(
        LimbeckError, match=r"holds (something else \(notes.txt\)|a model that was not saved by Limbeck)"
    ):
        result.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert [path.name for path in tmp_path.parent.glob(f".{tmp_path.name}*")] == []


def test_it_prints_as_the_table(result):
    table = str(result)
    assert "teacher" in table
    assert "distilled" in table
    assert max(map(len, table.splitlines())) <= 80
    assert "\x1b" not in table
    assert "distilled" in result._repr_html_()
    with pytest.raises(KnobError, match=r"no model 'hinton'.*\n.*distilled"):
        result.save("x", "hinton")


def test_a_temporary_folder_goes_with_its_result(tmp_path):
    result = limbeck.train(_saved(tmp_path / "model"), make_rows(120), epochs=0.2, measure={"speed": False})
    folder, student = result.folder, result.student
    assert (folder / "model").is_dir()
    assert result.save(tmp_path / "kept").is_dir()
    del result
    gc.collect()
    assert not folder.exists()
    assert student(**make_tokenizer()("a film", return_tensors="pt")).logits.shape == (1, 2)


def _saved(folder: Path) -> Path:
    for part in (make_classifier(layers=1), make_tokenizer()):
        part.save_pretrained(folder)
    return folder


def test_a_refused_run_leaves_no_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with contextlib.suppress(LimbeckError):
        limbeck.distill("./nowhere", make_rows(20))
        raise AssertionError("it was not refused")
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_verbs_share_their_words():
    spelled = {verb: inspect.signature(getattr(limbeck, verb)).parameters for verb in VERBS}
    for verb, parameters in spelled.items():
        common = {"task", "text_column", "pair_column", "max_length", "run", "watcher", "knobs"}
        if verb in ("train", "distill", "compare"):
            common |= {"epochs", "learning_rate", "batch_size", "seed", "label_column", "out", "resume", "callbacks"}
        assert common <= parameters.keys(), verb
        assert "text_column: the column with the text" in getattr(limbeck, verb).__doc__
    assert "epochs: passes over the training rows" in limbeck.distill.__doc__


@pytest.mark.parametrize(
    ("verb", "keyword", "near"),
    [
        (limbeck.distill, "epoch", "'epochs'"),
        (limbeck.train, "learningrate", "'learning_rate'"),
        (limbeck.compare, "text_colum", "'text_column'"),
        (limbeck.evaluate, "maxlength", "'max_length'"),
        (limbeck.bench, "batchsize", "'batch_size'"),
    ],
)
def test_a_misspelt_keyword_gets_the_near_names(verb, keyword, near):
    with pytest.raises(KnobError, match=rf"no knob '{keyword}'\n.*did you mean {near}"):
        verb("model", ["data"], **{keyword: 3})


def test_keywords_reach_their_tables():
    from limbeck.jobs.arguments import settings_of
    from limbeck.jobs.settings import BenchRun, Run

    given = {"run": None, "data": None, "knobs": {"train": {"patience": 2}}, "reading": {"dev": "dev.csv"}}
    run, _ = settings_of(Run, {**given, "epochs": 2, "pair_column": "b", "layers": 3, "limit": 9, "batch_size": 4})
    assert (run.train.epochs, run.train.patience, run.train.batch_size) == (2, 2, 4)
    assert (run.data.pair_column, run.data.dev, run.data.limit, run.student.layers) == ("b", "dev.csv", 9, 3)
    run, _ = settings_of(BenchRun, {**given, "knobs": {}, "batch_size": 4, "beam": 2, "threads": 1})
    assert (run.measure.batch_size, run.measure.threads, run.beam) == (4, 1, 2)
