"""Exported folders in the verbs: they answer and are measured as the folders they come from, and cannot learn."""

import csv
import shutil

import pytest

import limbeck
from exported import KINDS, LONG, TEXTS, folders, same
from limbeck.core.errors import KnobError, ModelError
from running import finish, start
from running import limbeck as command
from tiny import make_rows, write_csv

INPUTS = {
    "answer": [("the film", text) for text in (*TEXTS[:4], LONG)],
    "mask-fill": ["the [MASK] is good", "", "a [MASK] with a [MASK]"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_predict_answers_as_from_the_source(kind):
    source, exported = folders(kind)
    rows = INPUTS.get(kind, [*TEXTS[:4], "", LONG])
    for how in ({}, {"max_length": 16}):
        found = limbeck.predict(exported, rows, **how)
        for ours, theirs in zip(found, limbeck.predict(source, rows, **how), strict=True):
            same(ours, theirs)


def test_a_file_gets_the_same_columns(tmp_path):
    data, answers = write_csv(tmp_path / "new.csv", make_rows(9)), []
    for number, folder in enumerate(folders("classify")):
        out = tmp_path / f"{number}.csv"
        how = "--all-probabilities", "--device", "cpu"
        said = command("predict", folder, "--data", data, "--out", out, *how)
        assert (said.code, said.out) == (0, f"answers {out} (9 rows)\n"), said.err
        answers.append(list(csv.DictReader(out.read_text().splitlines())))
    assert [list(rows[0]) for rows in answers] == 2 * [
        ["text", "label", "predicted_label", "probability", "probability_negative", "probability_positive"]
    ]
    assert [row["predicted_label"] for row in answers[0]] == [row["predicted_label"] for row in answers[1]]


@pytest.mark.slow
def test_no_torch_is_imported(started, tmp_path):
    exported = folders("classify")[1]
    data, out = write_csv(tmp_path / "new.csv", make_rows(3)), tmp_path / "answers.csv"
    for words in ((exported, "a good film"), (exported, "--data", data, "--out", out)):
        said = finish(start("predict", *words))
        assert said.code == 0, said.err
    assert len(out.read_text().splitlines()) == 4
    for process in started():
        assert not {"torch", "transformers", "datasets"} & {*process.imported}


def test_slips_are_told_with_the_remedy(tmp_path, reviews):
    exported = folders("classify")[1]
    with pytest.raises(KnobError, match="exported for --task classify, not tag\n"):
        limbeck.predict(exported, ["x"], task="tag")
    with pytest.raises(KnobError, match="cannot run on cuda"):
        limbeck.predict(exported, ["x"], device="cuda")
    with pytest.raises(KnobError, match="no effect for --task classify"):
        limbeck.predict(exported, ["x"], windows={"stride": 3})
    folder = shutil.copytree(exported, tmp_path / "cut")
    (folder / "model.onnx").write_bytes(b"")
    with pytest.raises(ModelError, match=r"model\.onnx differs from what was written\n.*export"):
        limbeck.predict(folder, ["x"])
    said = command("predict", folder, "a text")
    assert (said.code, "model.onnx differs" in said.err, "Traceback" in said.err) == (2, True, False)


def test_an_exported_model_neither_learns_nor_teaches(tmp_path, reviews):
    exported = folders("classify")[1]
    remedy = r"cannot learn or teach\n.*model folder it was exported from"
    with pytest.raises(ModelError, match=remedy):
        limbeck.distill(exported, reviews, out=tmp_path / "run")
    with pytest.raises(ModelError, match=remedy):
        limbeck.train(exported, reviews, out=tmp_path / "run")
    for words in (("distill", "--teacher"), ("train", "--model")):
        said = command(*words, exported, "--data", reviews, "--out", tmp_path / "run")
        assert (said.code, "cannot learn or teach" in said.err) == (2, True)
    assert not (tmp_path / "run").exists()
