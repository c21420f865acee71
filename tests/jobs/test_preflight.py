"""What is refused before torch is imported."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from limbeck.core.errors import DataError, KnobError, LimbeckError, ModelError
from limbeck.jobs import preflight
from limbeck.jobs.compare_settings import CompareRun
from limbeck.jobs.folder import locked
from limbeck.jobs.preflight import check_run
from limbeck.jobs.settings import BenchRun, MeasuredKnobs, Run, TrainRun
from running import limbeck

CSV = "text,label\nI loved it,pos\nIt was bad,neg\n"
SHAPE = {"a.layer.0.w": [10, 10], "a.layer.1.w": [10, 10], "head": [5]}


def make_model(folder: Path, config: object = None, shapes=SHAPE) -> Path:
    """A folder that has all a model needs, without any weight worth the name."""
    folder.mkdir(parents=True)
    config = config or {"model_type": "bert", "architectures": ["BertForSequenceClassification"]}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 4
        for each in shape:
            size *= each
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(end))
    return folder


@pytest.fixture
def model(tmp_path):
    return make_model(tmp_path / "model")


@pytest.fixture
def check(tmp_path, model):
    """Checks a distillation; `data` names a file of tmp_path."""
    (tmp_path / "reviews.csv").write_text(CSV)

    def run(resume=False, out="out", **knobs):
        data = {"train": "reviews.csv"} | knobs.pop("data", {})
        data |= {name: str(tmp_path / data[name]) for name in ("train", "dev", "test") if name in data}
        settings = Run(**({"teacher": str(model), "out": str(tmp_path / out)} | knobs), data=data)
        check_run(settings, (settings.teacher, settings.student_from), out=settings.out, resume=resume)

    return run


def test_gzip_passes_and_what_only_has_its_name_does_not(check, tmp_path):
    (tmp_path / "reviews.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    check(data={"train": "reviews.csv.gz"})
    (tmp_path / "reviews.csv.gz").write_text(CSV)
    with pytest.raises(DataError, match=r"is named \.gz but is not gzip"):
        check(data={"train": "reviews.csv.gz"})


def test_what_is_right_passes_and_leaves_nothing(check, tmp_path):
    check()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "reviews.csv"]


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_a_misspelt_file(check, split):
    with pytest.raises(DataError, match=r"there is no file .*reviws.csv\n.*did you mean .*reviews.csv\?"):
        check(data={split: "reviws.csv"})


def test_columns_of_every_file(check, tmp_path):
    with pytest.raises(DataError, match="has no column 'txt'; its columns: 'text', 'label'"):
        check(data={"text_column": "txt"})
    (tmp_path / "test.csv").write_text("a,b\n1 2,3\n4 5,6\n")
    with pytest.raises(DataError, match=r"test.csv: no column is known as the text"):
        check(data={"test": "test.csv"})


def test_columns_of_a_large_file(check, tmp_path, monkeypatch):
    (tmp_path / "large.csv").write_text("text,label\n" + '"a, long\nfield",b\n' * 100_000)
    monkeypatch.setattr("limbeck.data.sources.files._csv", lambda *_: pytest.fail("it is read whole"), raising=False)
    check(data={"train": "large.csv"})
    (tmp_path / "large.csv").write_text("text,label\n" + "some words,b\n" * 100_000)
    with pytest.raises(DataError, match="has no column 'verdict'"):
        check(data={"train": "large.csv", "label_column": "verdict"})


@pytest.mark.parametrize(
    ("teacher", "problem"),
    [
        ("./nowhere", "there is no model folder"),
        ("", "no teacher was given"),
    ],
)
def test_a_teacher_that_is_not_there(check, teacher, problem):
    with pytest.raises(LimbeckError, match=problem):
        check(teacher=teacher)


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("config.json", "{", "config.json is damaged"),
        ("config.json", "{}", "names neither a model_type nor an architecture"),
        ("model.safetensors", "x" * 20, "is cut off or not a safetensors file"),
        ("model.safetensors", "", "is empty"),
    ],
)
def test_a_damaged_teacher(check, model, file, content, problem):
    (model / file).write_text(content)
    with pytest.raises(ModelError, match=problem):
        check()


def test_a_missing_shard(check, model):
    (model / "model.safetensors").unlink()
    (model / "model.safetensors.index.json").write_text('{"weight_map": {"a": "part-1.safetensors"}}')
    with pytest.raises(ModelError, match=r"part-1.safetensors is missing"):
        check()


def test_a_folder_that_holds_another_run(check, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.toml").write_text('model = "x"\n')
    with pytest.raises(LimbeckError, match="already holds an unfinished run"):
        check()
    with pytest.raises(KnobError, match="there is no knob 'model'"):  # of `limbeck train`
        check(resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(LimbeckError, match="a file of that name is in the way"):
        check(out="file")
    with pytest.raises(LimbeckError, match="part of the path is a file"):
        check(out="file/run")


def test_a_run_that_is_under_way_is_waited_for(check, tmp_path):
    with locked(tmp_path / "out", resume=False) as folder:
        (folder / "run.toml").write_text("")
        for resume in (False, True):
            with pytest.raises(LimbeckError, match="another run is writing to"):
                check(resume=resume)
    (tmp_path / "out" / ".lock").touch()  # of one that was killed
    with pytest.raises(LimbeckError, match="already holds an unfinished run"):
        check()


def test_a_recipe_that_does_not_exist(check):
    with pytest.raises(KnobError, match="did you mean 'hinton'"):
        check(recipe="hintn")


def test_a_disk_that_is_too_small(check, model, tmp_path, monkeypatch):
    """205 weights, one of two layers kept: 105; two models of each seed, the best one once more, three checkpoints."""
    needed = 4 * 105 * (3 * 2 + 1 + 9)
    for free, fits in ((needed, True), (needed - 1, False)):
        monkeypatch.setattr(preflight.shutil, "disk_usage", lambda _, free=free: type("U", (), {"free": free}))
        if fits:
            check(seeds=3)
        else:
            with pytest.raises(LimbeckError, match="models and checkpoints need about"):
                check(seeds=3)
    check(seeds=3, student={"family": "bilstm"})  # its size is known when it is built
    train = TrainRun(model=str(model), out=str(tmp_path / "out"), data={"train": str(tmp_path / "reviews.csv")})
    assert preflight._trained_bytes(train, model) == 4 * 205


@pytest.mark.parametrize(
    ("architecture", "file", "text"),
    [
        ("BertForTokenClassification", "train.conll", "a O\n\nb O\n"),
        ("BertForMaskedLM", "corpus.txt", "Some words."),
        ("BertForQuestionAnswering", "squad.json", '{"data": []}'),
    ],
)
def test_the_head_tells_the_task(tmp_path, check, architecture, file, text):
    """Whose files have no columns of texts and labels."""
    head = make_model(tmp_path / "other", {"model_type": "bert", "architectures": [architecture]})
    (tmp_path / file).write_text(text)
    check(teacher=str(head), data={"train": file})


def test_translation_needs_every_file(tmp_path):
    (tmp_path / "train.en").write_text("a\n")
    data = {"task": "translate", "train": str(tmp_path / "train.en")}
    run = TrainRun(data=data, parallel={"target": str(tmp_path / "train.dr")})
    with pytest.raises(DataError, match=r"there is no file .*train.dr"):
        check_run(run, [""])
    with pytest.raises(DataError, match="is no table"):
        check_run(TrainRun(data=data), [""])


def test_a_hub_id_is_left_for_later(check):
    check(teacher="someone/a-model", data={"train": "reviews.csv"})
    check_run(MeasuredKnobs(data={"train": "someone/a-dataset"}), ["someone/a-model"])
    with pytest.raises(KnobError, match="no model was given"):
        check_run(TrainRun(data={"train": "someone/a-dataset"}), [""])


def test_bench_needs_no_data_and_no_columns(tmp_path, model):
    check_run(BenchRun(), [str(model)])
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    check_run(BenchRun(data={"train": str(tmp_path / "a.csv")}), [str(model)])
    with pytest.raises(DataError, match="there is no file"):
        check_run(BenchRun(data={"train": str(tmp_path / "b.csv")}), [str(model)])
    with pytest.raises(ModelError, match="there is no model folder"):
        check_run(BenchRun(), [str(model), "./modle"])


def test_a_model_on_the_hub_tells_nothing_of_the_task(tmp_path, model):
    """Not even if the other one is here: its files may be of any kind."""
    (tmp_path / "corpus.txt").write_text("Just words.\n")
    data = {"train": str(tmp_path / "corpus.txt")}
    check_run(Run(teacher="someone/a-model", student_from=str(model), data=data), ["someone/a-model", str(model)])


def test_a_comparison_checks_its_files_too(check, tmp_path, model):
    run = CompareRun(teacher=str(model), data={"train": str(tmp_path / "reviws.csv")})
    with pytest.raises(DataError, match="there is no file"):
        check_run(run, [run.teacher])


# Item 17: a run that was killed before its run file stood


@pytest.mark.parametrize("verb", ["distill", "compare", "train"])
def test_a_run_that_was_never_begun_is_not_resumed(verb, tmp_path):
    for out in (tmp_path, tmp_path / "nowhere"):
        said = limbeck(verb, "--out", out, "--resume", "--train.threads", 1)
        assert said.code == 2
        assert f"there is no run to resume: nothing was begun in {out}" in said.err
        assert "start it with the full command" in said.err


@pytest.mark.parametrize("verb", ["distill", "compare", "train"])
def test_the_full_command_with_resume_starts_it(verb, tmp_path, model, monkeypatch):
    """Up to the point where the job itself is called."""
    (tmp_path / "reviews.csv").write_text(CSV)
    started = []
    monkeypatch.setattr(f"limbeck.cli.{verb}.execute", lambda job, **given: started.append(given) or sys.exit(0))
    role = "--model" if verb == "train" else "--teacher"
    said = limbeck(verb, role, model, "--data", tmp_path / "reviews.csv", "--out", tmp_path / "out", "--resume")
    assert said.code == 0, said.err
    assert started[0]["resume"] is True
    assert said.err.startswith("· ")


# Before torch


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["--teacher", "MODEL", "--data", "reviws.csv"], 2, "limbeck: there is no file reviws.csv"),
        (["--teacher", "MODEL", "--data", "reviews.csv", "--text-column", "txt"], 2, "limbeck: reviews.csv has no"),
        (["--teacher", "./modle", "--data", "reviews.csv"], 2, "limbeck: there is no model folder ./modle"),
        (["--teacher", "MODEL", "--data", "reviews.csv", "--recipe", "hintn"], 2, "limbeck: there is no recipe"),
    ],
)
def test_no_torch_is_imported_for_a_refusal(words, code, line, tmp_path, model):
    (tmp_path / "reviews.csv").write_text(CSV)
    given = [str(model) if word == "MODEL" else word for word in words]
    text = (
        f"import sys; sys.argv = ['limbeck', 'distill', *{given!r}, '--out', 'out']\n"
        "import atexit; atexit.register(lambda: print(*sys.modules))\n"
        "from limbeck.cli import main; main()"
    )
    child = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=tmp_path)
    assert child.returncode == code
    assert child.stderr.startswith(line)
    assert not {"torch", "transformers", "datasets", "pyarrow"} & set(child.stdout.split())


def test_the_first_line_comes_before_torch(tmp_path, model, monkeypatch):
    (tmp_path / "reviews.csv").write_text(CSV)
    code = (
        "import sys, builtins; from limbeck.cli import verb\n"
        "before = verb.begin\n"
        "def begin(*a, **k):\n    before(*a, **k); print('torch' in sys.modules); sys.exit(0)\n"
        "verb.begin = begin\n"
        f"sys.argv = ['limbeck', 'distill', '--teacher', {str(model)!r}, '--data', 'reviews.csv', '--out', 'small']\n"
        "from limbeck.cli import main; main()"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert child.stdout == "False\n", child.stderr
    assert child.stderr == f"· distilling {model} with reviews.csv into small\n"
