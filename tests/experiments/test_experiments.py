"""The experiments as data: listed without torch, refused with a remedy, figures joined with ours."""

import subprocess
import sys
from pathlib import Path

import pytest

from limbeck.core.errors import DataError, KnobError, MismatchError
from limbeck.experiments import EXPERIMENTS, find
from limbeck.experiments.experiment import Conditions
from limbeck.experiments.findings import Claim, Difference, over_seeds, sentence
from limbeck.experiments.published import beside, packaged
from limbeck.experiments.reproduce import conditions_of, reproduce
from limbeck.experiments.seq_kd import english, german
from running import limbeck

sys.path.insert(0, str(Path(__file__).parent.parent / "report"))
import sample

NAMES = ("pkd-sst2", "kim-rush-multi30k", "hinton-mnist", "lottery-mnist")


def test_the_list_names_everything_there_is_to_know(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/reproduce/pkd-sst2-quick/teacher").mkdir(parents=True)
    (tmp_path / "runs/reproduce/pkd-sst2-quick/teacher/record.json").write_text("{}")
    said = limbeck("reproduce")
    assert said.code == 0
    for name in EXPERIMENTS:
        assert name in said.out
    assert "begun in runs/reproduce/pkd-sst2-quick, quick: 1 part finished" in said.out
    assert "no Record here" in said.out
    assert "on two cores" in said.out
    assert "train.tsv" in said.out
    assert "Siqi Sun" in said.out


def test_the_list_needs_no_torch():
    code = "import sys, limbeck.cli.reproduce; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_an_unknown_name_is_answered_with_the_nearest():
    said = limbeck("reproduce", "pkd-sst")
    assert said.code == 2
    assert "there is no experiment 'pkd-sst'" in said.err
    assert "did you mean 'pkd-sst2'?" in said.err


@pytest.mark.parametrize("name", NAMES)
def test_data_is_asked_for_and_looked_at_first(tmp_path, name):
    said = limbeck("reproduce", name, "--out", tmp_path / "out")
    assert said.code == 2
    assert f"{name} needs " in said.err
    assert "--data" in said.err
    assert "--quick" in said.err
    said = limbeck("reproduce", name, "--data", tmp_path / "none", "--out", tmp_path / "out")
    assert "there is no folder" in said.err
    first, *others = find(name).needs.files
    (tmp_path / f"{first}.gz").touch()
    said = limbeck("reproduce", name, "--data", tmp_path, "--out", tmp_path / "out")
    assert f"has no {others[0]}" in said.err
    assert not (tmp_path / "out").exists(), "nothing is begun"


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_every_part_is_a_command_that_its_verb_takes(tmp_path, name, quick):
    plan = find(name)
    for file in plan.needs.files:
        (tmp_path / file).touch()
    conditions = conditions_of(plan, data=tmp_path, out=tmp_path / "out", quick=quick, seeds=2)
    parts, before = plan.parts(conditions), set()
    shown = {}
    for part in parts:
        assert before.issuperset(part.after), "a part stands behind those that it needs"
        before.add(part.name)
        said = limbeck(part.verb, *part.flags, "--out", tmp_path / part.name, "--print")
        assert said.code == 0, (part.name, said.err)
        shown[part.name] = said.out
    assert len(before) == len(parts)
    if name == "lottery-mnist" and not quick:
        assert len(parts) == 2 * 12
        assert "max_steps = 20000" in shown["seed-1/reinit-15"]
        assert "seed = 1" in shown["seed-1/reinit-15"]
    if name == "hinton-mnist" and not quick:
        assert 'hidden = "1200,1200"' in shown["seed-0/teacher"]
        assert "temperature = 2.5" in shown["seed-0/students"]
        assert "dev_rows = 5000" in shown["seed-0/missing"]


def test_pkd_takes_deeper_students_and_further_sentences(tmp_path):
    plan, more = find("pkd-sst2"), tmp_path / "more.txt"
    more.write_text("a sentence of somebody\n")
    for file in plan.needs.files:
        (tmp_path / file).touch()
    knobs = {"deep_seeds": 1, "unlabelled": str(more), "rows": 20_000, "teacher_rows": 0, "precision": "bf16"}
    conditions = conditions_of(plan, data=tmp_path, out=tmp_path / "out", knobs=knobs)
    shown = {}
    for part in plan.parts(conditions):
        said = limbeck(part.verb, *part.flags, "--out", tmp_path / part.name, "--print")
        assert said.code == 0, (part.name, said.err)
        shown[part.name] = said.out
    assert list(shown) == ["teacher", "students", "deep", "transfer"]
    assert "limit = 0" in shown["teacher"]
    assert "layers = 6" in shown["deep"]
    assert "seeds = 1" in shown["deep"]
    assert "seeds = 3" in shown["transfer"]
    assert 'recipes = "hinton,pkd-skip"' in shown["transfer"]
    assert all('precision = "bf16"' in told for told in shown.values())
    for name in ("students", "deep", "transfer"):
        sample.distill().save(tmp_path / "out" / name / "record.json")
    record = plan.conclude(conditions)
    one = sample.distill()
    students = [arm.name for arm in one.arms if arm.role != "teacher"]
    assert [arm.name for arm in record.arms if arm.role != "teacher"] == [
        *students,
        *(f"{part} {name}" for part in ("deep", "transfer") for name in students),
    ]
    assert len(record.comparisons) == 3 * len(one.comparisons)
    named = {arm.name for arm in record.arms}
    assert all({one.better, one.than} <= named for one in record.comparisons)


def test_a_flag_of_another_experiment_is_refused():
    with pytest.raises(KnobError, match="has no --network"):
        conditions_of(find("pkd-sst2"), quick=True, network="lenet5")


def test_a_folder_never_mixes_quick_and_whole(tmp_path):
    plan = find("pkd-sst2")
    out = tmp_path / "out"
    from limbeck.experiments.reproduce import _write_or_match

    _write_or_match(out, conditions_of(plan, quick=True, out=out))
    with pytest.raises(MismatchError, match=r"begun with other settings.*quick: True → False"):
        reproduce(plan, Conditions(out, seeds=1, model=""))


@pytest.mark.parametrize("path", sorted(packaged("pkd.toml").parent.glob("*_published.toml")), ids=lambda p: p.stem)
def test_every_published_table_is_whole(path):
    for one in beside(path.name, {}):
        assert one.row
        assert one.column
        assert one.source
        assert one.ours is None


def test_ours_stands_beside_the_published_figure():
    found = {one.row: one for one in beside("pkd_published.toml", {"hinton accuracy": [80.0, 82.0]})}
    assert (found["3 layers, KD"].ours, found["3 layers, KD"].seeds) == (81.0, 2)
    assert found["3 layers, KD"].spread == pytest.approx(2**0.5)
    assert found["3 layers, KD"].difference == pytest.approx(81.0 - 86.9)


def test_the_interval_over_seeds_is_students():
    found = over_seeds([2.0, 3.0, 4.0], [1.0, 1.0, 1.0])
    half = 4.302653 * 1.0 / 3**0.5
    assert (found.mean, found.low, found.high) == pytest.approx((2.0, 2 - half, 2 + half), abs=1e-5)
    assert found.words == "within chance"
    assert over_seeds([1.0], [0.5]).words == "of one seed"
    assert over_seeds([], [1.0]) is None


def test_the_finding_tells_what_appears_and_what_does_not():
    told = sentence(
        [
            Claim("A above B", Difference(1.25, 0.5, 2.0)),
            Claim("B above C", Difference(-0.5, -1.0, 0.1)),
            Claim("C above D", None),
        ]
    )
    assert told == (
        "Of the paper's 3 findings 1 appears here: A above B (+1.2 points, beyond chance); 1 does not appear: B above "
        "C (−0.5 points, within chance); 1 was not measured: C above D."
    )


@pytest.mark.parametrize(
    ("number", "en", "de"),
    [
        (0, "zero", "null"),
        (21, "twenty one", "ein und zwanzig"),
        (340, "three hundred forty", "drei hundert vierzig"),
        (70_516, "seventy thousand five hundred sixteen", "siebzig tausend fünf hundert sechzehn"),
    ],
)
def test_numbers_in_words(number, en, de):
    assert (english(number), german(number)) == (en, de)


def test_missing_files_are_all_named(tmp_path):
    with pytest.raises(DataError, match=r"has no train.tsv and no dev.tsv and no test.tsv"):
        find("pkd-sst2").needs.find(tmp_path)


def test_embedded_numbers_differ_between_splits(tmp_path):
    from limbeck.experiments.seq_kd import MULTI30K, _numbers

    files = MULTI30K.find(_numbers(tmp_path / "numbers"))
    texts = {name: path.read_text(encoding="utf-8").splitlines() for name, path in files.items()}
    assert len(texts["train.en"]) == len(texts["train.de"]) == 500
    assert set(texts["train.en"]).isdisjoint(texts["val.en"] + texts["test_2016_flickr.en"])
    assert len({text.split()[0] for text in texts["train.en"]}) > 15, "spread over all sizes"
