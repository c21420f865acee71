"""What is written follows from the code and the Records."""

import contextlib
import importlib
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, pipeline

from tiny import VOCABULARY, make_rows, make_tokenizer

HOME = Path(__file__).resolve().parent.parent
README = (HOME / "README.md").read_text(encoding="utf-8")
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(HOME / "docs")
    make = importlib.import_module("make")


def python_lines(place: int) -> str:
    lines = README.split("```python\n")[place].split("```")[0]
    assert len([line for line in lines.splitlines() if line.strip()]) <= 7
    return lines


def run(lines: str, folder: Path) -> dict:
    """The lines as they are, but for what takes long and changes nothing here; their names."""
    assert lines.count("student=") == 1
    brief = "epochs=1, measure={'speed': False, 'bootstrap': 200}, student="
    names: dict = {}
    with contextlib.chdir(folder):
        exec(lines.replace("student=", brief), names)
    return names


@pytest.mark.parametrize("path", make.pages(), ids=lambda path: path.name)
def test_pages_are_up_to_date(path):
    assert path.read_text(encoding="utf-8") == make.pages()[path], "run docs/make.py"


def test_readme_names_both_commands():
    assert "make demo" in README
    assert "make test" in README


@pytest.mark.slow
def test_the_five_lines_of_the_readme_run(tmp_path, teacher_folder, reviews):
    lines = python_lines(1).replace("my-classifier", str(teacher_folder)).replace("reviews.csv", str(reviews))
    result = run(lines, tmp_path)["result"]
    assert (tmp_path / "report.html").exists()
    opened = pipeline("text-classification", model=str(tmp_path / "small"), device="cpu")
    for text in (row["text"] for row in make_rows(20)):
        logits = result.student(**result.tokenizer(text, return_tensors="pt")).logits[0]
        (found,) = opened(text)
        assert found["label"] == result.student.config.id2label[logits.argmax().item()]
        assert abs(found["score"] - logits.softmax(-1).max().item()) < 1e-5


@pytest.mark.slow
def test_the_lines_about_language_models_run(tmp_path):
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 64}
    teacher = BertForMaskedLM(BertConfig(vocab_size=len(VOCABULARY), max_position_embeddings=64, **shape))
    for part in (teacher, make_tokenizer()):
        part.save_pretrained(tmp_path / "my-language-model")
    (tmp_path / "corpus.txt").write_text("\n".join(row["text"] for row in make_rows()), encoding="utf-8")
    result = run(python_lines(2), tmp_path)["result"]
    assert result.student.config.num_hidden_layers == 3
    text = "the [MASK] is good"
    inputs = result.tokenizer(text, return_tensors="pt")
    place = inputs["input_ids"][0].tolist().index(result.tokenizer.mask_token_id)
    best = result.student(**inputs).logits[0, place].softmax(-1).max().item()
    opened = pipeline("fill-mask", model=str(tmp_path / "small"), device="cpu")
    assert abs(opened(text)[0]["score"] - best) < 1e-5


def test_every_verb_and_table_has_its_knobs():
    page = make.knobs_page()
    for knob in ("`top`", "`blocks.length`", "`mask.share`"):
        assert knob in page.split("## limbeck cache")[1]
    for table in ("### blocks", "### mask"):
        assert page.count(table) == len(make.VERBS)
