"""`limbeck eval` and `bench` of translators that are already there: which figure leads, and folders from elsewhere."""

import shutil

import pytest

from limbeck.core.record import Record
from limbeck.engines import ctranslate2 as engine
from limbeck.exporters.ctranslate2 import convert
from running import limbeck
from tongues import sentences, translate, write_pairs
from untaught import make_teacher, of_files, told

ROWS = 40


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    sources = sentences(ROWS)
    return make_teacher(tmp_path_factory.mktemp("untaught") / "model", [*sources, *map(translate, sources)])


@pytest.fixture(scope="module")
def converted(translator):
    return convert(translator, translator.with_name("ct2"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("pairs"), ROWS)


@pytest.fixture
def foreign(converted, tmp_path):
    """What CTranslate2's own converter writes."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    for name in ("model.bin", "config.json", "shared_vocabulary.json"):
        shutil.copy(converted / name, folder)
    return folder


def test_a_folder_that_another_program_converted(foreign, data, tmp_path):
    out = ("--out", tmp_path / "run")
    for job in (("eval", foreign, *of_files(data)), ("bench", foreign, "--data", data)):
        problem, remedy = told(limbeck(*job, *out))
        assert problem == f"{foreign} was not converted here: it has no limbeck.json"
        assert "convert" in remedy
    assert not (tmp_path / "run").exists()


def test_a_converted_folder_without_its_tokenizer(foreign, converted, data):
    shutil.copy(converted / "limbeck.json", foreign)
    problem, remedy = told(limbeck("eval", foreign, *of_files(data)))
    assert f"the tokenizer in {foreign} cannot be opened" in problem
    assert "convert" in remedy


def test_a_translator_is_exported_and_tried_on_a_file_of_sources(translator, data, tmp_path):
    said = limbeck("export", translator, "--to", "ctranslate2", "--data", data, "--out", tmp_path / "ct2")
    assert said.code == 0, said.err
    assert "of the answers on" in said.out
    assert "logits" not in said.out
    written = [tmp_path / name for name in ("theirs.csv", "ours.csv")]
    for folder, file in zip((tmp_path / "ct2", translator), written, strict=True):
        said = limbeck("predict", folder, "--data", data, "--out", file)
        assert said.code == 0, said.err
        assert len(file.read_text(encoding="utf-8").splitlines()) == 1 + ROWS


@pytest.mark.parametrize("engine", ["translator", "converted"])
def test_the_metric_that_was_asked_for_leads(engine, data, tmp_path, request):
    folder = request.getfixturevalue(engine)
    for metric in ("bleu", "chrf"):
        said = limbeck("eval", folder, *of_files(data), "--translate.metric", metric, "--out", tmp_path / metric)
        assert said.code == 0, said.err
        assert Record.load(tmp_path / metric).metric == metric


def test_batches_of_ctranslate2_are_as_large_as_asked_for(converted, data, monkeypatch):
    budgets, cut = [], engine.batches_by_length
    monkeypatch.setattr(engine, "batches_by_length", lambda lengths, most: budgets.append(most) or cut(lengths, most))
    assert limbeck("eval", converted, *of_files(data), "--translate.batch-tokens", 77).code == 0
    assert set(budgets) == {77}
