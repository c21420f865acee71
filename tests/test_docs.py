"""What is written follows from the code and the Records."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

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


def run(lines: str, folder: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", lines], cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("path", make.pages(), ids=lambda path: path.name)
def test_pages_are_up_to_date(path):
    assert path.read_text(encoding="utf-8") == make.pages()[path], "run docs/make.py"


def test_readme_names_both_commands():
    assert "make demo" in README
    assert "make test" in README


@pytest.mark.slow
def test_the_five_lines_of_the_readme_run(tmp_path, teacher_folder, reviews):
    lines = python_lines(1).replace("my-classifier", str(teacher_folder)).replace("reviews.csv", str(reviews))
    run(lines, tmp_path)
    assert (tmp_path / "small" / "model.safetensors").exists()
    assert (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_the_lines_about_language_models_run(tmp_path):
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 64}
    teacher = BertForMaskedLM(BertConfig(vocab_size=len(VOCABULARY), max_position_embeddings=64, **shape))
    for part in (teacher, make_tokenizer()):
        part.save_pretrained(tmp_path / "my-language-model")
    (tmp_path / "corpus.txt").write_text("\n".join(row["text"] for row in make_rows()), encoding="utf-8")
    brief = (
        "measure={'speed': False, 'bootstrap': 200}, student="  # timing takes long, and the lines above time already
    )
    run(python_lines(2).replace("student=", brief), tmp_path)
    student = BertForMaskedLM.from_pretrained(tmp_path / "small")
    assert student.config.num_hidden_layers == 3


def test_every_verb_and_table_has_its_knobs():
    page = make.knobs_page()
    for knob in ("`top`", "`blocks.length`", "`mask.share`"):
        assert knob in page.split("## limbeck cache")[1]
    for table in ("### blocks", "### mask"):
        assert page.count(table) == len(make.VERBS)
