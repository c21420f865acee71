"""One student of two translators from the command line: tags, one vocabulary, a switch for each direction."""

import pytest
from transformers import AutoTokenizer

from limbeck.core.record import Record
from limbeck.data.seq2seq.directions import REVERSED
from limbeck.jobs.settings import Run, read_run
from running import limbeck
from tongues import BRIEF, TUNE, run, sentences, tiny, translate, write_pairs

TINY = tiny(1)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    write_pairs(folder, 300)
    for split, seed in (("dev", 7), ("test", 8)):
        sources = sentences(40, seed)
        (folder / f"{split}.en").write_text("\n".join(sources) + "\n", encoding="utf-8")
        (folder / f"{split}.de").write_text("\n".join(map(translate, sources)) + "\n", encoding="utf-8")
    return folder


def files(texts, source, target):
    splits = ("--data.dev", texts / f"dev.{source}", "--data.test", texts / f"test.{source}")
    return ("--task", "translate", "--data", texts / f"train.{source}", "--target", texts / f"train.{target}", *splits)


@pytest.fixture(scope="module")
def teachers(texts, tmp_path_factory):
    """The one of en-de knows its language; the one of de-en has hardly begun, and is soon passed."""
    out = tmp_path_factory.mktemp("made")
    train = ("train", *TINY, *BRIEF, *TUNE)
    run(*train, *files(texts, "en", "de"), "--tag", "de", "--tags", "de,en", "--epochs", 10, "--out", out / "en-de")
    shared = ("--tag", "en", "--vocabulary-from", out / "en-de" / "model")
    run(*train, *files(texts, "de", "en"), *shared, "--epochs", 1, "--out", out / "de-en")
    return out


def run_file(path, texts, teachers, **more):
    lines = ['[data]\ntask = "translate"']
    for source, target in (("en", "de"), ("de", "en")):
        name = f"{source}-{target}"
        lines.append(f'[directions.{name}]\nteacher = "{teachers / name / "model"}"')
        lines.append(f'train = "{texts / f"train.{source}"}"\ntarget = "{texts / f"train.{target}"}"')
        lines.append(f'dev = "{texts / f"dev.{source}"}"\ntest = "{texts / f"test.{source}"}"')
        lines += [f"{key} = {value}" for key, value in more.get(name.replace("-", "_"), {}).items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def distilled(texts, teachers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("both")
    file = run_file(folder / "run.toml", texts, teachers, de_en={"repeat": 2})
    run("distill", file, "--recipe", "multilingual", *BRIEF, *TUNE, "--epochs", 3, "--out", folder / "out")
    return folder / "out"


def test_teachers_share_tags_and_vocabulary(teachers):
    one, other = (AutoTokenizer.from_pretrained(teachers / name / "model") for name in ("en-de", "de-en"))
    assert one.get_vocab() == other.get_vocab()
    assert one.convert_ids_to_tokens(one("<2de> a dog").input_ids)[:2] == ["<2de>", "▁a"]
    assert not [piece for piece in one.get_vocab() if "2" in piece and piece not in ("<2de>", "<2en>")]
    assert one.convert_tokens_to_ids("<pad>") == len(one) - 1


def test_every_direction_has_its_figures(distilled):
    record = Record.load(distilled)
    for split in ("", "dev "):
        for direction in ("en-de", "de-en"):
            assert {f"{split}bleu of {direction}, {arm}" for arm in ("teacher", "plain", "distilled")} <= set(
                record.figures
            )
    good, poor = (record.figures[f"bleu of {direction}, teacher"] for direction in ("en-de", "de-en"))
    joint = record.arm("teacher").mean("bleu")
    assert good > 60 > poor
    assert poor < joint < good
    assert record.data.splits["test"].rows == 80
    assert record.data.splits["train"].rows == sum((1, 2)[place] * rows for place, rows in enumerate(kept_rows(record)))
    assert (distilled / "report.html").exists()


def kept_rows(record):
    """Of each direction; the two lose the same rows, turned round."""
    lost = record.data.dropped.get(REVERSED, 0)
    return [300 - lost // 2] * 2


def test_a_teacher_is_switched_off_at_the_evaluation_at_which_it_is_passed(distilled):
    record = Record.load(distilled)
    curve = record.arm("distilled").runs[0].curve
    for direction in ("en-de", "de-en"):
        own = record.figures[f"dev bleu of {direction}, teacher"]
        passed = [point.step for point in curve if point.dev.get(f"bleu of {direction}", 0) >= own + 1]
        (note,) = (note for note in record.notes if f"seed 0: the teacher of {direction}" in note)
        assert f"was switched off at step {passed[0]} " in note if passed else "stayed on" in note
        assert passed or direction == "en-de", "the weak teacher was not passed"
    first = next(point.step for point in curve if point.dev)
    before = [point.terms["truncated"] for point in curve if point.terms and point.step < first]
    after = [point.terms["truncated"] for point in curve if point.terms and point.step > first]
    assert after[0] > 3 * before[-1], "its rows are now compared with the given words"


def test_a_tag_tells_the_student_what_to_write(distilled, texts):
    said = Record.load(distilled)
    assert {sample.source.split()[0] for sample in said.samples} == {"<2de>", "<2en>"}
    assert said.artifacts[0].quality["bleu"] == pytest.approx(said.arm("distilled").mean("bleu"), abs=10)


def test_the_run_file_reads_back(distilled):
    found = Run(**read_run(distilled / "run.toml"))
    assert found.directions["de-en"].repeat == 2
    assert list(found.directions) == ["en-de", "de-en"]
    assert found.switch.strategy == "threshold"
    assert limbeck("distill", "--resume", "--out", distilled).code == 0


@pytest.mark.parametrize(
    ("flags", "message", "remedy"),
    [
        (("--teacher", "x"), "--teacher is given beside", "every direction has its teacher"),
        (("--recipe", "seq-kd"), "the given targets are learnt", "--recipe multilingual"),
        (("--teacher-cache.live",), "several teachers can only be cached", "without --teacher-cache.live"),
        (
            ("--objective.truncated.form", "renorm-both"),
            "'renorm-both' compares cached tokens",
            "--switch.strategy fixed",
        ),
        (("--task", "classify"), "'directions.en-de' has no effect for --task classify", "--task translate"),
    ],
)
def test_what_several_teachers_cannot_do_is_refused(texts, teachers, tmp_path, flags, message, remedy):
    file = run_file(tmp_path / "run.toml", texts, teachers)
    recipe = () if "--recipe" in flags or "--task" in flags else ("--recipe", "multilingual")
    said = limbeck("distill", file, *recipe, "--out", tmp_path / "out", *flags)
    assert said.code == 2
    assert message in said.err
    assert remedy in said.err


def test_teachers_with_other_words_are_refused(texts, teachers, tmp_path):
    other = ("--tag", "en", "--tags", "de,en", "--seq2seq.pieces", "bpe", "--epochs", 1, "--out", tmp_path / "de-en")
    run("train", *TINY, *BRIEF, *TUNE, *files(texts, "de", "en"), *other)
    (tmp_path / "en-de").symlink_to(teachers / "en-de")
    said = limbeck(
        "distill", run_file(tmp_path / "run.toml", texts, tmp_path), "--recipe", "multilingual", "--out", tmp_path / "x"
    )
    assert said.code == 2
    assert "different vocabularies" in said.err
    assert f"--vocabulary-from {tmp_path / 'en-de' / 'model'}" in said.err


def test_a_vocabulary_without_the_tag_is_refused(texts, teachers, tmp_path):
    shared = ("--tag", "fr", "--vocabulary-from", teachers / "en-de" / "model", "--out", tmp_path / "out")
    said = limbeck("train", *TINY, *files(texts, "de", "en"), *shared)
    assert said.code == 2
    assert "has no token <2fr>" in said.err
    assert "--tags fr" in said.err
