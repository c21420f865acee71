"""What people get wrong with translators: a sentence that names file, row or knob, a remedy, and exit code 2."""

import subprocess
import sys

import pytest
from transformers import BartConfig, BartForSequenceClassification

from limbeck.core.record import Record
from running import files, limbeck
from tongues import sentences, translate, write_pairs
from untaught import BRIEF, NEW, append, ends_well, make_teacher, of_files, told, train_sources

ROWS = 120


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    sources = sentences(ROWS)
    return make_teacher(tmp_path_factory.mktemp("untaught") / "teacher", [*sources, *map(translate, sources)])


@pytest.fixture
def data(tmp_path):
    return write_pairs(tmp_path / "pairs", ROWS)


@pytest.fixture
def refused(tmp_path, teacher, data):
    """Runs a job that must be refused before anything is asked; nothing may be left behind."""

    def run(*more, given=None, taught=("--teacher", teacher), verb="distill"):
        out = tmp_path / "out" / "run"
        brief = () if verb == "eval" else ("--epochs", 1, "--measure.no-speed")
        said = limbeck(verb, *taught, *(of_files(data) if given is None else given), "--out", out, *brief, *more)
        assert not out.exists(), files(out)
        return told(said)

    return run


# Files.


@pytest.mark.parametrize("side", ["--data", "--target"])
def test_a_missing_file(refused, data, side):
    given = list(of_files(data))
    place = given.index(side) + 1
    there = given[place]
    given[place] = there.with_name("trian" + there.suffix)
    problem, remedy = refused(given=given)
    assert f"there is no file {given[place]}" in problem
    assert f"did you mean {there}?" in remedy


def test_a_table_that_is_missing(refused, data):
    (data.parent / "train.tsv").write_text("source\ttarget\na\tb\n")
    problem, remedy = refused(given=("--task", "translate", "--data", data.parent / "tran.tsv"))
    assert "there is no file" in problem
    assert "did you mean" in remedy
    assert "train.tsv" in remedy


def test_unequal_line_counts(refused, data):
    with data.open("a") as file:
        file.write("a dog\n")
    problem, remedy = refused()
    assert f"{data} has 121 lines, but {data.with_suffix('.de')} has 120" in problem
    assert "line n of the other" in remedy


def test_a_wrong_encoding(refused, data):
    path = data.with_suffix(".de")
    path.write_bytes(path.read_text(encoding="utf-8").encode("cp1252"))
    problem, remedy = refused()
    assert f"{path}, line " in problem
    assert "is not UTF-8" in problem
    assert "--data.encoding cp1252" in remedy


def test_empty_files(refused, data):
    for path in (data, data.with_suffix(".de")):
        path.write_text("")
    problem, _ = refused()
    assert f"{data} and {data.with_suffix('.de')} are empty" in problem


def test_only_empty_lines(refused, data):
    data.write_text("\n" * ROWS)
    problem, _ = refused()
    assert str(data) in problem
    assert "no row has a text to translate" in problem


def test_no_targets_at_all(refused, data):
    data.with_suffix(".de").write_text("\n" * ROWS)
    problem, remedy = refused()
    assert "no row has a target" in problem
    assert "--data.dev" in remedy


def test_a_file_opposite_itself(refused, data):
    problem, remedy = refused(given=("--task", "translate", "--data", data, "--target", data))
    assert f"source and target are both {data}" in problem
    assert "--target" in remedy


def test_one_column_only(refused, data, tmp_path):
    table = tmp_path / "one.tsv"
    table.write_text("source\n" + data.read_text())
    problem, remedy = refused(given=("--task", "translate", "--data", table))
    assert f"{table}: source and target columns are not known; its columns: 'source'" in problem
    assert "--target" in remedy


def test_wrong_column_names(refused, tmp_path):
    table = tmp_path / "two.tsv"
    table.write_text("en\tde\n" + "".join(f"{one}\t{translate(one)}\n" for one in sentences(ROWS)), encoding="utf-8")
    problem, remedy = refused("--parallel.source-column", "english", given=("--task", "translate", "--data", table))
    assert f"{table} has no column 'english'; its columns: 'en', 'de'" in problem
    assert "--parallel.source-column" in remedy
    problem, _ = refused(
        "--parallel.target-column",
        "en",
        "--parallel.source-column",
        "en",
        given=("--task", "translate", "--data", table),
    )
    assert "both column 'en'" in problem


def test_a_target_opposite_nothing(refused, data):
    problem, remedy = refused("--parallel.dev-target", data.with_suffix(".de"))
    assert "there is no --data.dev" in problem
    assert "--data.dev" in remedy


# Models, recipes and knobs.


def test_a_teacher_that_is_a_classifier(refused, teacher_folder):
    problem, remedy = refused(taught=("--teacher", teacher_folder))
    assert str(teacher_folder) in problem
    assert "no sequence-to-sequence head; use a model such as Marian" in remedy


def test_a_teacher_that_is_a_causal_model(refused, causal):
    problem, remedy = refused(taught=("--teacher", causal))
    assert str(causal) in problem
    assert "no sequence-to-sequence head" in remedy


def test_a_classifier_that_has_a_decoder(refused, teacher, tmp_path):
    """Its architecture could write, and its weights fit; what it learnt is something else."""
    folder = tmp_path / "bart"
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    BartForSequenceClassification(BartConfig(vocab_size=90, **sizes, **heads)).save_pretrained(folder)
    for path in teacher.glob("tokenizer*"):
        (folder / path.name).write_bytes(path.read_bytes())
    problem, remedy = refused(taught=("--teacher", folder))
    assert f"{folder} is a BartForSequenceClassification" in problem
    assert "Marian" in remedy


def test_a_folder_without_a_model(refused, teacher):
    problem, remedy = refused(taught=("--teacher", teacher.parent))
    assert "is not a model folder" in problem
    assert str(teacher) in remedy


def test_no_teacher_and_two_teachers(refused, teacher):
    problem, remedy = refused(taught=())
    assert "no teacher was given" in problem
    assert "--translate.command" in remedy
    problem, remedy = refused("--translate.command", "cat")
    assert "several teachers" in problem
    assert "--translate.endpoint" in remedy


@pytest.mark.parametrize("recipe", ["word-kd", "seq-kd+word-kd"])
def test_words_of_another_vocabulary(refused, tmp_path, recipe):
    other = make_teacher(tmp_path / "other", sentences(ROWS, seed=5))
    problem, remedy = refused("--student-from", other, "--recipe", recipe)
    assert "student and teacher use different tokenizers" in problem
    assert "seq-kd" in remedy


def test_more_of_the_best_than_the_beam_holds(refused):
    problem, remedy = refused("--translate.beam", 2, "--translate.nbest", 3)
    assert "a beam of 2 has no 3 best translations" in problem
    assert "--translate.beam" in remedy
    problem, remedy = refused("--translate.nbest", 3, taught=("--translate.command", "cat"))
    assert "one translation" in problem
    assert "--translate.nbest" in remedy


def test_recipes_that_are_not_there_or_not_for_translators(refused):
    problem, remedy = refused("--recipe", "seq-dk")
    assert "there is no recipe 'seq-dk'" in problem
    assert "did you mean 'seq-kd'?" in remedy
    problem, remedy = refused("--recipe", "hinton")
    assert "'hinton' does not serve --task translate" in problem
    assert "seq-kd" in remedy
    problem, remedy = refused("--recipe", "seq-inter", *NEW, taught=("--translate.command", "cat"))
    assert "none can be closest" in problem


def test_a_shape_that_does_not_divide(refused):
    problem, remedy = refused(*NEW, "--seq2seq.heads", 3, taught=("--translate.command", "cat"))
    assert "does not divide into 3 heads" in problem
    assert "heads" in remedy


@pytest.mark.parametrize("verb", ["distill", "train", "eval"])
def test_without_sacrebleu_nothing_begins(refused, teacher, monkeypatch, verb):
    for name in [name for name in sys.modules if name.partition(".")[0] == "sacrebleu"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    asked = {"distill": ("--teacher", teacher), "train": (), "eval": (teacher,)}
    problem, remedy = refused(taught=asked[verb], verb=verb)
    assert "sacrebleu" in problem
    assert "pip install 'limbeck[translate]'" in remedy


def test_without_ctranslate2_an_engine_that_was_asked_for_is_refused(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    problem, remedy = refused("--translate.engine", "ctranslate2")
    assert "CTranslate2 is not installed" in problem
    assert "pip install 'limbeck[translate]'" in remedy


# Programs and addresses.


def test_a_command_that_does_not_exist(refused):
    problem, remedy = refused(*NEW, taught=("--translate.command", "/no/such/translator --fast"))
    assert "'/no/such/translator --fast' cannot be started" in problem
    assert "--translate.command" in remedy


def test_an_address_that_is_none(refused):
    problem, remedy = refused(*NEW, taught=("--translate.endpoint", "localhost:8000"))
    assert "'localhost:8000' is not an address" in problem
    assert "http://" in remedy


# Places to write to.


def test_a_file_in_place_of_the_folder(teacher, data, tmp_path):
    (tmp_path / "taken").write_text("mine")
    for out in (tmp_path / "taken", tmp_path / "taken" / "below"):
        problem, remedy = told(limbeck("distill", "--teacher", teacher, *of_files(data), "--out", out))
        assert f"cannot write {out}" in problem
        assert "--out" in remedy
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.skipif(sys.platform != "linux", reason="needs tmpfs")
@pytest.mark.parametrize("verb", ["distill", "train"])
def test_a_read_only_folder(teacher, data, tmp_path, verb):
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,ro", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount a disk: {mounted.stderr.decode().strip()}")
    try:
        taught = ("--teacher", teacher) if verb == "distill" else ()
        problem, remedy = told(limbeck(verb, *taught, *of_files(data), "--out", place / "run"))
    finally:
        subprocess.run(["umount", "-l", place], check=True)
    assert f"cannot write {place / 'run'}: the file system is read-only" in problem
    assert "--out" in remedy


@pytest.mark.parametrize("recipe", ["word-kd", "seq-inter", "finetune"])
def test_no_targets_for_who_learns_from_them(refused, data, recipe):
    data.with_suffix(".de").write_text("\n" * ROWS)
    held_out = write_pairs(data.parent / "held out", 40, seed=7)
    problem, remedy = refused("--recipe", recipe, "--data.dev", held_out, "--data.test", held_out)
    assert "no training row has a target" in problem
    assert recipe in problem
    assert "seq-kd" in remedy


def test_a_column_without_a_sound_translation_leaves_the_others(teacher, data, tmp_path):
    job = ("compare", "--recipes", "finetune,seq-kd", "--teacher", teacher, *of_files(data), "--translate.longest", 1)
    said = limbeck(*job, *BRIEF, "--out", tmp_path / "run")
    assert said.code == 0, said.err
    record = Record.load(tmp_path / "run")
    assert [failure.arm for failure in record.failed] == ["seq-kd"]
    assert "0 of the teacher's 98 translations pass the filters" in record.failed[0].reason
    assert {"teacher", "finetune"} <= {arm.name for arm in record.arms}


# What is odd and yet no mistake.


def test_odd_lines_are_cut_counted_and_translated(data, tmp_path):
    """Thousands of words, letters no vocabulary knows, a separator inside a line: in every split, by a teacher of
    which only its positions say how much it reads."""
    long = "the dog " * 1500
    odd = [(long + str(n), long + str(n)) for n in range(12)]
    odd += [(f"𓀀𓁐 ☃{n} 龍", f"龍{n}") for n in range(30)]
    odd += [(f"a dog\u2028the cat\x85{n}", f"ein hund\u2028der kater {n}") for n in range(30)]
    teacher = make_teacher(tmp_path / "endless", sentences(ROWS), endless=True)
    append(data, odd)
    out = tmp_path / "run"
    record = ends_well("--teacher", teacher, *of_files(data)[2:], "--recipe", "word-kd", "--out", out)
    assert record.data.read == ROWS + len(odd)
    assert sum(split.rows for split in record.data.splits.values()) == ROWS + len(odd)
    trained = train_sources(data)
    cut = sum(source.startswith(long) for source in trained)
    assert 0 < cut < 12
    assert f"{cut} training rows are longer than 64 tokens and were cut." in record.notes
    assert any("\u2028" in source for source in trained)
