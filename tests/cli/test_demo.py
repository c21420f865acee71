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
    monkeypatch.setattr(source, "demo_rows", lambda: make_rows(500))
    monkeypatch.setattr(verb, "TESTED", 100)
    verb.demo(tmp_path / "run", seeds=1, labels=200, texts=150)
    said = capsys.readouterr().out
    file = tmp_path / "run" / "export" / "onnx-int8"
    assert f'limbeck predict {file} "some text"' in said
    assert load(file).predict(["a good film"])[0]["label"] in ("negative", "positive")
    record = Record.load(tmp_path / "run")
    assert record.knobs["recipe"] == "small"
    assert [arm.name for arm in record.arms] == ["teacher", "plain", "distilled"]
    train = record.data.splits["train"]
    assert 50 < train.labelled < 150  # 200 with labels, of which 100 are dev
    assert train.rows - train.labelled == 150  # the others are texts alone
    assert record.data.splits["dev"].rows == verb.DEV
    sizes = {one.name: one.size.bytes_in_all for one in record.artifacts if one.size}
    assert sizes["onnx-int8"] < record.arm("teacher").size.bytes_in_all
    assert json.loads((file / "limbeck.json").read_text())["precision"] == "int8"
