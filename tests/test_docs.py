"""What is written follows from the code and the Records."""

import contextlib
import importlib
import re
from pathlib import Path

import pytest
import torch
import typer
from transformers import BertConfig, BertForMaskedLM, pipeline

from limbeck.cli.app import VERBS, app
from tiny import VOCABULARY, make_rows, make_tokenizer

HOME = Path(__file__).resolve().parent.parent
README = (HOME / "README.md").read_text(encoding="utf-8")
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(HOME / "docs")
    make, sandbox, run_blocks = (importlib.import_module(name) for name in ("make", "sandbox", "run_blocks"))
MADE = make.pages()  # once: it reads every Record
PAGE = """\
# Some page

<!-- a comment -->
```sh
limbeck methods \\
    hinton  # shows it
limbeck methods nothing
echo a   b > said.txt
```

<!-- not run: it takes a hub -->
```sh
limbeck distill --teacher someone/something
```

Words.
```python
raise ValueError("no")
```

```toml
seeds = 2
```

```toml
# run.toml
seeds = 3
```
"""


def python_lines(page: str) -> str:
    """The first ones of a page."""
    lines = page.split("```python\n")[1].split("```")[0]
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


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.name)
def test_pages_are_up_to_date(path):
    assert path.read_text(encoding="utf-8") == MADE[path], "run docs/make.py"


def test_readme_names_both_commands():
    assert "make demo" in README
    assert "make test" in README


@pytest.mark.slow
def test_the_five_lines_of_the_readme_run(tmp_path, teacher_folder, reviews):
    lines = python_lines(README).replace("my-classifier", str(teacher_folder)).replace("reviews.csv", str(reviews))
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
    result = run(python_lines((HOME / "docs" / "language-models.md").read_text(encoding="utf-8")), tmp_path)["result"]
    assert result.student.config.num_hidden_layers == 3
    text = "the [MASK] is good"
    inputs = result.tokenizer(text, return_tensors="pt")
    place = inputs["input_ids"][0].tolist().index(result.tokenizer.mask_token_id)
    best = result.student(**inputs).logits[0, place].softmax(-1).max().item()
    opened = pipeline("fill-mask", model=str(tmp_path / "small"), device="cpu")
    assert abs(opened(text)[0]["score"] - best) < 1e-5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'pin_memory'")
@pytest.mark.usefixtures("forked_probes")
def test_the_commands_of_the_readme_run(tmp_path):
    """The Python lines have a test of their own; all other pages are run by `make docs-check`."""
    folder = sandbox.make(tmp_path / "sandbox")
    assert run_blocks.run_page(HOME / "README.md", folder, only=("sh",)) == []
    assert (folder / "answers.csv").read_text(encoding="utf-8").count("\n") == 21  # a header and a line for each row


@pytest.mark.parametrize("page", [*run_blocks.PAGES, HOME / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_pages_link_to_what_is_there(page):
    for target in re.findall(r"\]\(([^)#]*)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (page.parent / target).exists(), target


@pytest.fixture(scope="module")
def flags() -> set[str]:
    """Every option of every verb."""
    verbs = {verb: typer.main.get_command(app([verb])).commands[verb] for verb in VERBS}
    options = [param for verb in verbs.values() for param in verb.params]
    return {flag for option in options for flag in (*option.opts, *option.secondary_opts)} | {"--help", "--help-all"}


@pytest.mark.parametrize("page", run_blocks.PAGES, ids=lambda path: path.name)
def test_pages_name_no_option_that_is_not_there(page, flags):
    named = set(re.findall(r"(?<![\w-])--[a-z][\w.-]*\w", page.read_text(encoding="utf-8")))
    assert sorted(named - flags) == []


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 130


def test_a_failing_block_is_reported_with_its_place(tmp_path):
    page, folder = tmp_path / "page.md", tmp_path / "sandbox"
    folder.mkdir()
    page.write_text(PAGE, encoding="utf-8")
    failures = run_blocks.run_page(page, folder)
    assert [failure.splitlines()[0] for failure in failures] == [
        "page.md:4: limbeck methods nothing",
        "page.md:17:     Traceback (most recent call last):",
        "page.md:21: a run file needs a name in its first line, as in # run.toml",
    ]
    assert "there is no method 'nothing'" in failures[0]
    assert "line 18, in <module>" in failures[1]
    assert (folder / "run.toml").read_text(encoding="utf-8").endswith("seeds = 3\n")
    assert (folder / "said.txt").read_text(encoding="utf-8") == "a b\n"
    assert [block.not_run for block in run_blocks.blocks(page) if block.not_run] == ["it takes a hub"]


def test_every_verb_and_table_has_its_knobs():
    page = make.knobs_page()
    for knob in ("`top`", "`blocks.length`", "`mask.share`"):
        assert knob in page.split("## limbeck cache")[1]
    for table in ("### blocks", "### mask"):
        assert page.count(table) == len(make.VERBS)


def test_the_readme_shows_the_frontier_of_its_record():
    record = make.Record.load(make.RESULTS / f"{make.SMALL}.json")
    shown = make.results(make.SMALL)
    assert all(f"| {arm.title} |" in shown for arm in record.arms)
    assert make.pages()[make.HOME / "docs" / "frontier.svg"].startswith("<svg")


def test_the_readme_tells_what_each_task_gained():
    lines = make.results("stories").splitlines()
    assert [line.split(":")[0] for line in lines] == [f"- {title}" for title in make.STORIES.values()]
    assert all("interval" in line for line in lines)
