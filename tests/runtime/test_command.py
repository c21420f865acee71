"""`python -m limbeck_runtime`, in this process and where torch cannot be imported."""

import ast
import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import limbeck
import limbeck_runtime
from exported import folders
from limbeck_runtime.__main__ import main
from tiny import make_rows, write_csv

HOUSE = Path(limbeck_runtime.__file__).parent
WITHOUT = """
import sys
for name in ("torch", "transformers", "pydantic", "limbeck", "safetensors", "scipy"):
    sys.modules[name] = None  # whoever imports it fails
from limbeck_runtime.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def test_it_answers_where_nothing_heavy_can_be_imported():
    folder = folders("classify")[1]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, folder, "a good film"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (expected,) = limbeck.predict(folders("classify")[0], ["a good film"])
    found = json.loads(done.stdout)
    assert found["label"] == expected["label"]
    assert abs(found["probability"] - expected["probability"]) < 1e-5


def test_it_imports_nothing_else():
    allowed = {*sys.stdlib_module_names, "numpy", "tokenizers", "safetensors", "onnxruntime", "limbeck_runtime"}
    for path in HOUSE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.split(".")[0] for name in names} <= allowed, path


def test_a_file_is_answered_beside_its_own_columns(tmp_path, capsys):
    rows = [{"id": "1", "text": "a good film", "label": "x"}, {"id": "2", "text": " ", "label": "y"}]
    rows += [{"id": str(number), **row} for number, row in enumerate(make_rows(5), 3)]
    data, out = write_csv(tmp_path / "new.csv", rows), tmp_path / "answers.tsv"
    assert main([str(folders("classify")[1]), "--data", str(data), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"answers {out} (7 rows)\n"
    found = list(csv.DictReader(io.StringIO(out.read_text()), delimiter="\t"))
    assert list(found[0]) == ["id", "text", "label", "predicted_label", "probability"]
    assert [row["id"] for row in found] == [str(number) for number in range(1, 8)]
    assert (found[1]["predicted_label"], found[1]["probability"]) == ("", "")
    expected = limbeck.predict(folders("classify")[0], [row["text"] for row in rows])
    assert [row["predicted_label"] for row in found] == [one["label"] or "" for one in expected]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.tsv", "new.csv"]


def test_standard_input_and_pairs(monkeypatch, capsys):
    folder = str(folders("multilabel")[1])
    monkeypatch.setattr(sys, "stdin", io.StringIO("a good film\n\na plot\n"))
    assert main([folder, "-"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [set(line) for line in lines] == [{"labels", "probabilities"}] * 3
    assert lines[1] == {"labels": None, "probabilities": None}
    assert main([str(folders("answer")[1]), "the film", "a film with a plot"]) == 0
    (expected,) = limbeck.predict(folders("answer")[0], [("the film", "a film with a plot")])
    assert json.loads(capsys.readouterr().out)["answer"] == expected["answer"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give one of a text and --data"),
        (("a text", "--out", "x.csv"), "--out needs --data"),
        (("--data", "x.json"), "neither .csv nor .tsv"),
        (("--data", "none.csv"), "there is no file"),
        (("--data", "new.csv", "--text-column", "txt"), "has no column 'txt'; its columns: text, label"),
        (("--data", "bad.csv"), "line 3: not as many fields"),
        (("--data", "new.csv", "--out", "none/x.csv"), "cannot be written"),
    ],
)
def test_slips_are_told_with_the_remedy(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "new.csv", make_rows(3))
    (tmp_path / "bad.csv").write_text("text,label\na,b\nc\n")
    assert main([str(folders("classify")[1]), *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "  → " in said
    assert not (tmp_path / "x.csv").exists()
