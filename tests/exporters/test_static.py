"""A static student for NumPy: whole, compact and proved, or not there."""

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import limbeck
import limbeck_runtime
from exported import LONG, TEXTS
from limbeck.core.checksum import FILES, check_files, read_sealed
from limbeck.core.errors import ModelError
from limbeck.core.fingerprint import fingerprint
from limbeck.core.vocabulary import take_rows, trimmed
from limbeck.exporters import reference, static
from limbeck.exporters.export import export
from limbeck.jobs.bench import bench
from limbeck.jobs.evaluate import evaluate
from limbeck.passes.quantize import Quantize
from limbeck.students.load import load_saved
from limbeck.students.shrink import Shrink
from limbeck_runtime import UnusableError
from limbeck_runtime import static as runtime
from tiny import make_classifier, make_rows, make_tokenizer, write_csv
from tiny_language import save

LABELS = {"classify": ("negative", "positive"), "multilabel": ("a", "b", "c"), "regress": ("score",)}
PROBLEMS = {"classify": "single_label_classification", "multilabel": "multi_label_classification"}
BRIEF = {"rounds": 20, "repeats": 1, "bootstrap": 200}
PAIRS = [*TEXTS[1:], LONG, TEXTS[0]]


def student(kind="classify", pairs=False, seed=3, **sizes):
    """As if it had learned."""
    teacher = make_classifier(LABELS[kind], layers=1, problem_type=PROBLEMS.get(kind, "regression"))
    torch.manual_seed(seed)
    sizes = {"embedding": 16, "filters": 8, "feed_forward": 16} | sizes
    model = Shrink(family="static", **sizes).build(teacher, make_tokenizer(), pairs)[0]
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


@cache
def folders(kind="classify", pairs=False, to="numpy") -> tuple[Path, Path]:
    place = Path(mkdtemp(prefix="limbeck-static-"))
    source = save(student(kind, pairs), make_tokenizer(), place / "model")
    rows = list(zip(TEXTS, PAIRS, strict=False)) if pairs else [(text, "") for text in TEXTS]
    return source, export(source, to, place / "exported", rows).path


@pytest.mark.parametrize(("to", "precision"), [("numpy", "float16"), ("numpy-int8", "int8")])
def test_a_folder_has_what_answering_takes(to, precision):
    source, folder = folders(to=to)
    model, _ = load_saved(source)
    names = ["config.json", "limbeck.json", "static.safetensors", "tokenizer.json", "tokenizer_config.json"]
    assert sorted(file.name for file in folder.iterdir()) == names
    facts = read_sealed(folder / "limbeck.json")
    check_files(folder, facts[FILES])
    assert (facts["engine"], facts["precision"], facts["parent"]) == ("NumPy", precision, fingerprint(model))
    assert facts["parity"]["agreement"] == 1.0
    assert facts["parity"]["relative_difference"] < (1e-3 if to == "numpy" else 2e-2)
    tensors = load_file(folder / "static.safetensors")
    assert tensors["pieces.weight"].dtype == np.dtype(precision)
    assert tensors["filters.weight"].dtype == np.float32
    assert ("pieces.scale" in tensors) == (to == "numpy-int8")


def test_integers_are_rounded_row_by_row():
    table = np.array([[1.0, -2.54, 0.01], [0.0, 0.0, 0.0], [-1e-3, 5e-4, 1e-3]], dtype=np.float32)
    found = static._integers(table)
    assert list(found) == ["pieces.weight", "pieces.scale"]
    rows, scale = found.values()
    assert rows.tolist() == [[50, -127, 0], [0, 0, 0], [-127, 64, 127]]
    np.testing.assert_allclose(scale, [0.02, 0.0, 1e-3 / 127], rtol=1e-6)
    assert np.abs(rows * scale[:, None] - table).max() <= scale.max() / 2 * 1.001


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("kind", ["classify", "multilabel", "regress"])
def test_texts_and_pairs_are_answered_as_from_the_source(kind, pairs):
    source, exported = folders(kind, pairs)
    model = limbeck_runtime.load(exported)
    assert (model.kind, model.labels) == (kind, LABELS[kind])
    texts = [*TEXTS, LONG]
    rows = list(zip(texts, PAIRS, strict=True)) if pairs else texts
    found = model.predict(texts, PAIRS if pairs else None)
    for ours, theirs in zip(found, limbeck.predict(source, rows), strict=True):
        near(ours, theirs)
    (short,) = limbeck.predict(source, rows[-1:], max_length=9)
    near(model.predict(texts[-1:], PAIRS[-1:] if pairs else None, max_length=9)[0], short)


def near(ours, theirs):
    """Two answers, but for what half floats cost."""
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        if isinstance(value, str) or name == "labels":
            assert value == theirs[name]
        else:
            assert np.allclose(value, theirs[name], rtol=1e-3, atol=5e-3), name


@pytest.mark.parametrize(("filters", "window"), [(0, 3), (8, 1), (8, 2), (8, 4)])
def test_a_batch_and_one_text_alone_agree(filters, window, tmp_path):
    source = save(student(filters=filters, window=window), make_tokenizer(), tmp_path / "model")
    model = limbeck_runtime.load(export(source, "numpy-int8", tmp_path / "exported").path)
    texts = ["", "good", "a good", *TEXTS, "", LONG]  # without a word, and with fewer than a window
    together, alone = model.logits(texts, batch_size=7), np.concatenate([model.logits([text]) for text in texts])
    assert np.allclose(together, alone, atol=1e-5)
    network, tokenizer = load_saved(source)
    with torch.no_grad():
        theirs = network(**tokenizer(texts, padding=True, truncation=True, return_tensors="pt")).logits.numpy()
    assert np.abs(together - theirs).max() < 0.02 * np.abs(theirs).max()


def test_a_runtime_that_computes_otherwise_is_found(tmp_path, monkeypatch):
    source = save(student(), make_tokenizer(), tmp_path / "model")
    right = runtime.StaticNetwork.pool
    monkeypatch.setattr(runtime.StaticNetwork, "pool", lambda self, ids, read: right(self, ids[:, ::-1], read[:, ::-1]))
    with pytest.raises(ModelError, match="answers otherwise"):
        export(source, "numpy", tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_integers_that_cost_answers_are_not_written(tmp_path, monkeypatch):
    monkeypatch.setitem(reference.NOISE, 8, 1e-12)
    source = save(student(), make_tokenizer(), tmp_path / "model")
    with pytest.raises(ModelError, match=r"in int8, .*\n.*--to numpy"):
        export(source, "numpy-int8", tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_a_trimmed_student_is_exported(tmp_path):
    model, tokenizer = student(), make_tokenizer()
    small, old_ids = trimmed(tokenizer, tokenizer("a good film with a dull plot and story")["input_ids"])
    take_rows(model, old_ids)
    source = save(model, small, tmp_path / "model")
    out = export(source, "numpy", tmp_path / "exported", [("a dull film", ""), ("good story and a plot", "")]).path
    assert len(load_file(out / "static.safetensors")["pieces.weight"]) == len(old_ids)
    near(limbeck_runtime.load(out).predict(["a good plot"])[0], limbeck.predict(source, ["a good plot"])[0])


def test_a_student_in_integers_already_is_exported(tmp_path):
    small = limbeck.compress(student(embedding=32), [Quantize()])
    source = save(small, make_tokenizer(), tmp_path / "model")
    out = export(source, "numpy", tmp_path / "exported", [(text, "") for text in TEXTS]).path
    near(limbeck_runtime.load(out).predict(TEXTS[:1])[0], limbeck.predict(source, TEXTS[:1])[0])


def test_static_students_go_to_numpy_and_no_others(tmp_path):
    source, _ = folders()
    for to in ("onnx", "onnx-int8"):
        with pytest.raises(ModelError, match=rf"not exported to {to}\n.*--to numpy"):
            export(source, to, tmp_path / "out")
    bert = save(make_classifier(), make_tokenizer(), tmp_path / "bert")
    with pytest.raises(ModelError, match=r"family 'static' only\n.*--to onnx-int8"):
        export(bert, "numpy", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "static.safetensors").write_bytes(b"{}"), r"static\.safetensors differs"),
        (lambda folder: (folder / "config.json").write_text("{}"), r"config\.json differs"),
        (lambda folder: (folder / "static.safetensors").unlink(), r"static\.safetensors is gone"),
        (lambda folder: (folder / "limbeck.json").unlink(), r"has no limbeck\.json"),
    ],
)
def test_a_damaged_folder_is_refused(damage, message, tmp_path):
    folder = shutil.copytree(folders()[1], tmp_path / "exported")
    damage(folder)
    with pytest.raises(UnusableError, match=message):
        limbeck_runtime.load(folder)


def test_it_is_measured_like_any_other(tmp_path):
    """eval and bench take the folder, and name its engine."""
    source, exported = folders()
    data = write_csv(tmp_path / "reviews.csv", make_rows(60))
    scores = [
        evaluate(str(one), data, measure=BRIEF).arms[-1].runs[0].quality["accuracy"] for one in (source, exported)
    ]
    assert scores[0] == scores[1]
    record = bench([str(source), str(exported)], data, measure=BRIEF)
    ours = record.arms[-1]
    assert ours.speed.engine == "NumPy fp16"
    assert ours.size.bytes_on_disk == (exported / "static.safetensors").stat().st_size
    assert ours.size.bytes_in_all == sum(file.stat().st_size for file in exported.iterdir())
    assert ours.title == "exported, in NumPy fp16"


ALONE = """
import sys
sys.modules |= dict.fromkeys(("torch", "transformers", "onnxruntime", "limbeck"))  # importing one fails
import limbeck_runtime
print(limbeck_runtime.load(sys.argv[1]).predict([sys.argv[2]])[0]["label"])
"""


def test_it_answers_with_numpy_alone(tmp_path):
    source, exported = folders(to="numpy-int8")
    said = subprocess.run([sys.executable, "-c", ALONE, exported, TEXTS[0]], capture_output=True, text=True)
    assert said.stdout.strip() == limbeck.predict(source, TEXTS[:1])[0]["label"], said.stderr
