"""The demo's whole story, on a model and sentences that take seconds."""

import json

import pytest

from limbeck.cli import demo as verb
from limbeck.core.record import Record
from limbeck.data.sources import demo as source
from limbeck_runtime import load
from tiny import make_classifier, make_rows, make_tokenizer

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("forked_probes")
def test_the_demo_ends_with_a_small_file_and_a_line_to_try_it(tmp_path, monkeypatch, capsys):
    make_classifier(layers=4).save_pretrained(tmp_path / "minilm")
    make_tokenizer().save_pretrained(tmp_path / "minilm")
    monkeypatch.setattr(source, "demo_model", lambda: tmp_path / "minilm")
    monkeypatch.setattr(source, "demo_rows", lambda: make_rows(300))
    verb.demo(tmp_path / "run", seeds=1, rows=200)
    said = capsys.readouterr().out
    file = tmp_path / "run" / "export" / "onnx-int8"
    assert f'limbeck predict {file} "some text"' in said
    assert load(file).predict(["a good film"])[0]["label"] in ("negative", "positive")
    record = Record.load(tmp_path / "run")
    assert record.knobs["recipe"] == "small"
    assert [arm.name for arm in record.arms] == ["teacher", "plain", "distilled"]
    sizes = {one.name: one.size.bytes_in_all for one in record.artifacts if one.size}
    assert sizes["onnx-int8"] < record.arm("teacher").size.bytes_in_all
    assert json.loads((file / "limbeck.json").read_text())["precision"] == "int8"
