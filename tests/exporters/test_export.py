"""An exported folder is whole, compact and proved, or it is not there."""

import json
import os
import shutil

import numpy as np
import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoTokenizer

import limbeck
from limbeck.core.checksum import FILES, DamagedError, check_files, read_sealed
from limbeck.core.errors import KnobError, LimbeckError, ModelError
from limbeck.core.fingerprint import fingerprint
from limbeck.exporters import onnx_parity
from limbeck.exporters.export import export
from limbeck.exporters.targets import check_target
from limbeck.students.load import load_saved
from tiny import VOCABULARY, make_classifier, make_rows, make_tokenizer, write_csv
from tiny_language import byte_level, make_causal, save

ROWS = [(row["text"], "") for row in make_rows(40)]
LABELS = [int(row["label"] == "positive") for row in make_rows(40)]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A classifier whose tokenizer.json pads and truncates, as MiniLM's does."""
    tokenizer = make_tokenizer()
    tokenizer.backend_tokenizer.enable_padding(length=128)
    tokenizer.backend_tokenizer.enable_truncation(128)
    model = make_classifier(layers=2, initializer_range=0.2, problem_type="single_label_classification")
    return save(model, tokenizer, tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def exported(source, tmp_path_factory):
    place = tmp_path_factory.mktemp("exported")
    return {to: export(source, to, place / to, ROWS, LABELS) for to in ("onnx", "onnx-int8")}


def test_a_folder_has_what_answering_takes(source, exported):
    model, tokenizer = load_saved(source)
    for to, precision in (("onnx", "float32"), ("onnx-int8", "int8")):
        folder = exported[to].path
        files = ["config.json", "limbeck.json", "model.onnx", "tokenizer.json", "tokenizer_config.json"]
        assert sorted(file.name for file in folder.iterdir()) == files
        facts = read_sealed(folder / "limbeck.json")
        check_files(folder, facts[FILES])
        assert facts["parent"] == fingerprint(model)
        assert (facts["kind"], facts["labels"], facts["precision"]) == ("classify", ["negative", "positive"], precision)
        assert (facts["max_length"], facts["pad_id"], facts["opset"]) == (64, 0, 20)
        config = AutoConfig.from_pretrained(folder)
        assert (config.model_type, config.id2label) == ("bert", {0: "negative", 1: "positive"})
        opened = AutoTokenizer.from_pretrained(folder)
        assert opened(ROWS[0][0])["input_ids"] == tokenizer(ROWS[0][0])["input_ids"]


def test_the_tokenizer_forgets_what_it_padded_and_truncated_to(source, exported):
    assert json.loads((source / "tokenizer.json").read_text())["padding"]
    file = exported["onnx"].path / "tokenizer.json"
    assert len(Tokenizer.from_file(str(file)).encode("a good film").ids) == 5
    text = file.read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))


def test_figures_say_how_near_it_is(source, exported):
    floats, integers = (exported[to].figures for to in ("onnx", "onnx-int8"))
    assert floats["agreement"] == 1.0
    assert floats["relative_difference"] < 1e-4
    assert floats["accuracy"] == floats["source_accuracy"]
    assert integers["agreement"] >= 0.98
    assert 1e-4 < integers["relative_difference"] < 0.3
    assert integers["rows"] == len(ROWS)
    assert integers["bytes"] == sum(file.stat().st_size for file in exported["onnx-int8"].path.iterdir())
    assert integers["bytes"] < 0.5 * floats["bytes"]
    model, tokenizer = load_saved(source)
    with torch.no_grad():
        logits = model(**tokenizer([text for text, _ in ROWS], padding=True, return_tensors="pt")).logits
    assert floats["source_accuracy"] == pytest.approx(np.mean(logits.argmax(-1).numpy() == LABELS))


def test_an_altered_file_is_found(exported, tmp_path):
    folder = shutil.copytree(exported["onnx"].path, tmp_path / "copy")
    content = bytearray((folder / "model.onnx").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "model.onnx").write_bytes(content)
    with pytest.raises(DamagedError, match=r"model\.onnx differs"):
        check_files(folder, read_sealed(folder / "limbeck.json")[FILES])


def test_what_does_not_answer_as_its_source_is_not_written(source, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_parity, "TOLERANCE", 1e-12)
    with pytest.raises(ModelError, match=r"differ by up to .* of the largest"):
        export(source, "onnx", tmp_path / "out", ROWS)
    assert list(tmp_path.iterdir()) == []


def test_weights_that_suffer_stay_float_or_nothing_is_written(source, tmp_path, monkeypatch):
    monkeypatch.setitem(onnx_parity.NOISE, 4, 0.02)
    monkeypatch.setattr(onnx_parity, "MOST_FLOAT", 0.9)
    found = export(source, "onnx-int4", tmp_path / "some", ROWS)
    assert found.figures["float_weights"] > 0
    assert found.figures["noise"] <= 0.02
    monkeypatch.setitem(onnx_parity.NOISE, 4, 0.0)
    with pytest.raises(ModelError, match="are the source's and the noise"):
        export(source, "onnx-int4", tmp_path / "none", ROWS)
    assert [path.name for path in tmp_path.iterdir()] == ["some"]


def test_refusals(source, tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    with pytest.raises(LimbeckError, match="is there already"):
        export(source, "onnx", tmp_path / "there")
    with pytest.raises(LimbeckError, match=r"there/file is a file, not a folder\n.*--out"):
        check_target("onnx", tmp_path / "there" / "file" / "out")
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda place, mode: False)  # root may write anywhere but on a read-only disk
        with pytest.raises(LimbeckError, match=r"cannot be written to\n.*--out"):
            check_target("onnx", tmp_path / "out")
    with pytest.raises(KnobError, match="no target 'onyx'"):
        export(source, "onyx", tmp_path / "out")
    tokenizer = byte_level()
    causal = save(make_causal(tokenizer), tokenizer, tmp_path / "causal")
    with pytest.raises(ModelError, match="causal language model"):
        export(causal, "onnx", tmp_path / "out")
    bare = shutil.copytree(source, tmp_path / "bare")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (bare / name).unlink()
    with pytest.raises(ModelError, match="tokenizer"):
        export(bare, "onnx", tmp_path / "out")
    full = shutil._ntuple_diskusage(10**6, 10**6, 1000)
    monkeypatch.setattr("limbeck.exporters.export.shutil.disk_usage", lambda place: full)
    with pytest.raises(LimbeckError, match=r"has 0\.0 MB left"):
        export(source, "onnx", tmp_path / "out", ROWS)
    monkeypatch.setattr("limbeck.exporters.targets.find_spec", lambda name: None)
    with pytest.raises(LimbeckError, match=r"pip install 'limbeck\[onnx\]'"):
        export(source, "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_or_a_model_in_hand_from_python(source, tmp_path):
    model, tokenizer = load_saved(source)
    rows = [
        {"text": text, "label": ["negative", "positive"][label]} for (text, _), label in zip(ROWS, LABELS, strict=True)
    ]
    file = write_csv(tmp_path / "dev.csv", rows)
    found = limbeck.export(model, "onnx", tmp_path / "out", file, tokenizer=tokenizer)
    assert found.figures["rows"] == len(ROWS)
    assert found.figures["accuracy"] == found.figures["source_accuracy"]
    with pytest.raises(KnobError, match="no place for the export"):
        limbeck.export(source)


def test_a_graph_of_one_length_is_refused(tmp_path):
    """As Funnel's is, which tracing leaves with the length of its sample."""
    sizes = {"d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 48, "block_sizes": [1, 1]}
    model = hf.FunnelForSequenceClassification(hf.FunnelConfig(vocab_size=len(VOCABULARY), **sizes))
    with pytest.raises(ModelError, match=r"ONNX Runtime cannot run the exported graph: .") as refused:
        limbeck.export(model, "onnx", tmp_path / "out", tokenizer=make_tokenizer())
    assert "another architecture" in refused.value.remedy
    assert list(tmp_path.iterdir()) == []
