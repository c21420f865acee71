"""What is written follows from the code and the Records."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parent.parent
MAKE = runpy.run_path(str(HOME / "docs" / "make.py"))


@pytest.mark.parametrize("path", MAKE["pages"](), ids=lambda path: path.name)
def test_pages_are_up_to_date(path):
    assert path.read_text(encoding="utf-8") == MAKE["pages"]()[path], "run docs/make.py"


def test_readme_names_both_commands():
    text = (HOME / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text


def test_the_five_lines_of_the_readme_run(tmp_path, teacher_folder, reviews):
    readme = (HOME / "README.md").read_text(encoding="utf-8")
    lines = readme.split("```python\n")[1].split("```")[0]
    assert len([line for line in lines.splitlines() if line.strip()]) <= 7
    lines = lines.replace("my-classifier", str(teacher_folder)).replace("reviews.csv", str(reviews))
    run = subprocess.run([sys.executable, "-c", lines], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "small" / "model.safetensors").exists()
    assert (tmp_path / "report.html").exists()
