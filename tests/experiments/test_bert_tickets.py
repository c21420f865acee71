"""The tickets of encoders: which parts there are, when more of them are known, and what comes of them."""

import sys
from pathlib import Path

import pytest

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.record import Floor, Record
from limbeck.core.ticket import Ticket
from limbeck.experiments.bert_tickets import BERT_TICKETS
from limbeck.experiments.bert_tickets_data import GLUE, embedded
from limbeck.experiments.bert_tickets_plan import SOURCES, plan_of
from limbeck.experiments.reproduce import _write_or_match, conditions_of, so_far
from limbeck.jobs.settings import TrainRun, undot
from limbeck.jobs.ticket_settings import TicketRun
from running import limbeck

sys.path.insert(0, str(Path(__file__).parent.parent / "report"))
import sample

TASKS = ("sst2", "mrpc", "stsb")
OWN = {"sst2": 0.90, "mrpc": 0.80, "stsb": 0.70}  # what every round of a task's own search reaches, but for the last
GAIN = {"mlm": 0.02, "start": -0.01, "sst2-2500": -0.03, "sst2-all": 0.01}  # what other sources' tickets bring


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return embedded(tmp_path_factory.mktemp("glue"))


def conditions(out, data, seeds=3, **knobs):
    return conditions_of(BERT_TICKETS, data=data, out=out, seeds=seeds, knobs=knobs, model="encoder")


def kinds(parts):
    return [part.name.partition("/")[0] for part in parts]


def check_order(parts):
    """Behind what it needs, each once."""
    names = [part.name for part in parts]
    assert len(names) == len(set(names))
    for part in parts:
        assert all(before in names[: names.index(part.name)] for before in part.after), part.name


def search(out, source, seed, *means, rounds=9):
    """The Record of a search that reached these accuracies, the last one in all further rounds."""
    record = sample.ticket_search(*means, *[means[-1]] * (rounds + 1 - len(means)))
    arm = record.arms[0]
    arm = arm.model_copy(update={"runs": [arm.runs[seed].model_copy(update={"seed": seed})]})
    floor = Floor(title="most frequent class", quality={"accuracy": 0.5})
    record.but(arms=[arm], seeds=[seed], floor=floor).save(out / f"tickets/{source}/seed-{seed}/record.json")


def train(out, part, accuracy):
    record = sample.trained()
    run = record.arms[0].runs[0].model_copy(update={"quality": {"accuracy": accuracy}})
    record.but(arms=[record.arms[0].model_copy(update={"runs": [run]})]).save(out / part / "record.json")


def searched(out, seeds=(0, 1, 2)):
    for seed in seeds:
        for task in TASKS:  # 60 % may go, or of MRPC 50 %
            search(out, task, seed, *[OWN[task]] * (6 if task == "mrpc" else 7), 0.55)
    for source in GAIN:
        search(out, source, 0, 0.8, rounds=7)


def test_the_matrix_of_one_seed_comes_first_and_every_part_once(tmp_path, data):
    parts = plan_of(conditions(tmp_path, data)).parts()
    names = [part.name for part in parts]
    assert len(names) == len(set(names))
    assert names[:3] == [f"tickets/{task}/seed-0" for task in TASKS]
    assert {name.split("/")[1] for name in names if name.startswith("tickets/")} == set(SOURCES)
    # 7 sources to 3 targets but for their own, masked LM only once its search is done; 3 controls of 3 tasks
    assert kinds(parts).count("tickets") == 3 * 3 + 4
    assert kinds(parts).count("transfer") == 3 * 2 + 3 * 3
    assert kinds(parts).count("controls") == 3 * 3
    assert names.index("transfer/70/sst2-all-to-stsb/seed-0") < names.index("tickets/sst2/seed-1")
    check_order(parts)


def test_every_part_is_what_its_verb_takes(tmp_path, data):
    for part in plan_of(conditions(tmp_path, data)).parts():
        words = [str(word) for word in part.flags if word != "--measure.no-speed"]
        given = {flag.removeprefix("--"): value for flag, value in zip(words[::2], words[1::2], strict=True)}
        assert given["seed"] == part.name[-1]
        short = {"model", "seed", "rounds", "ticket", "control", "head-epochs", "prune"}
        knobs = {key.replace("-", "_"): given[key] for key in given if "." in key or key in short}
        (TicketRun if part.verb == "tickets" else TrainRun)(**undot(knobs))


def test_the_matching_sparsity_tells_of_more_parts(tmp_path, data):
    searched(tmp_path, seeds=(0, 1))
    plan = plan_of(conditions(tmp_path, data))
    assert plan.matching("sst2") is None, "a seed is missing"
    assert plan.common() is None
    searched(tmp_path)
    plan = plan_of(conditions(tmp_path, data))
    assert [plan.matching(task) for task in TASKS] == [60, 50, 60]
    assert plan.common() == 50
    plan = plan_of(conditions(tmp_path, data, sources="sst2,mrpc,stsb,start,sst2-2500"))
    names = [part.name for part in plan.parts()]
    check_order(plan.parts())
    assert "controls/50/mrpc-random/seed-0" in names
    assert "controls/60/sst2-reinit/seed-0" in names
    assert "tickets/sst2-2500/seed-2" in names
    assert "tickets/start/seed-1" not in names, "its ticket needs no seed"
    assert sum(name.startswith("transfer/50/") for name in names) == 3 * (3 * 2 + 2 * 3)
    sparse = next(part for part in plan.parts() if part.name == "tickets/sst2-2500/seed-2")
    assert sparse.flags[sparse.flags.index("--rounds") + 1] == 5
    less = plan_of(conditions(tmp_path, data, common="false", sources="sst2,mrpc,stsb,start")).parts()
    assert not any(part.name.startswith("transfer/50/") for part in less)


def test_further_seeds_may_search_less_far_and_fewer_sources_be_common(tmp_path, data):
    searched(tmp_path, seeds=(0,))
    for seed in (1, 2):
        for task in TASKS:  # all match as far as they went
            search(tmp_path, task, seed, *[OWN[task]] * 5, rounds=4)
    cut = {"seed_rounds": 4, "sources": "sst2,mrpc,stsb,start,sst2-2500,sst2-all", "common_sources": "sst2,stsb,start"}
    plan = plan_of(conditions(tmp_path, data, **cut))
    flags = {part.name: part.flags for part in plan.parts()}
    rounds = {name: flags[name][flags[name].index("--rounds") + 1] for name in flags if name.startswith("tickets/")}
    assert rounds["tickets/sst2/seed-0"] == 9
    assert rounds["tickets/sst2/seed-1"] == 4
    assert plan.common() == 40, "no further than all seeds went"
    assert "tickets/sst2-2500/seed-1" not in rounds
    common = [name for name in flags if name.startswith("transfer/40/")]
    assert len(common) == 3 * (2 * 2 + 3)
    assert "transfer/70/sst2-all-to-mrpc/seed-0" in flags, "the matrix of one seed has all sources"
    for name in flags:
        if name.startswith("transfer/"):
            train(tmp_path, name, 0.5 if "/40/sst2-" in name or "/70/start" in name else 0.6)
    record = so_far(BERT_TICKETS, conditions(tmp_path, data, **cut))
    assert record.matrices[2].rows == ["SST-2", "STS-B", "pre-trained weights"]
    assert "2,500 at 70 %" in record.finding, "which is not in the matrix of all seeds"


def test_a_target_whose_own_ticket_learns_nothing_is_named_under_the_matrix(tmp_path, data):
    for task, last in {"sst2": 0.55, "mrpc": 0.501, "stsb": 0.55}.items():  # the floor is 0.5
        search(tmp_path, task, 0, *[OWN[task]] * 6, last)
    record = so_far(BERT_TICKETS, conditions(tmp_path, data, sources="sst2,mrpc,stsb"))
    caption = record.matrices[1].caption
    assert "MRPC's own is no better than what needs no model: its column says nothing." in caption
    assert "SST-2's" not in caption


def test_controls_may_stand_at_the_matching_sparsities_alone(tmp_path, data):
    few = {"sources": "sst2,mrpc,stsb", "controls_at": "matching"}
    searched(tmp_path, seeds=(0, 1))
    early = plan_of(conditions(tmp_path, data, **few)).parts()
    assert not any(part.name.startswith("controls/") for part in early), "nobody knows yet where"
    searched(tmp_path)
    names = [part.name for part in plan_of(conditions(tmp_path, data, **few)).parts()]
    controls = [name for name in names if name.startswith("controls/")]
    assert len(controls) == 3 * 3
    assert "controls/50/mrpc-random/seed-0" in controls
    assert "controls/60/stsb-shuffled/seed-0" in controls
    for name in controls:
        train(tmp_path, name, 0.3)
    record = so_far(BERT_TICKETS, conditions(tmp_path, data, **few))
    assert record.matrices[-1].rows == ["SST-2 at 60 %", "MRPC at 50 %", "STS-B at 60 %"]
    assert "the ticket above a random mask at 60 %, 50 %" in record.finding


def test_what_is_done_is_shown_and_the_rest_is_blank(tmp_path, data):
    searched(tmp_path, seeds=(0,))
    sources = "sst2,mrpc,stsb,start,sst2-2500,sst2-all"
    for source, gain in GAIN.items():
        for task in TASKS if source in sources.split(",") else ():
            train(tmp_path, f"transfer/70/{source}-to-{task}/seed-0", 0.55 - 0.01 + gain)  # seed 0 is 0.01 lower
    train(tmp_path, "transfer/70/mrpc-to-sst2/seed-0", 0.50)
    train(tmp_path, "controls/70/sst2-random/seed-0", 0.51)
    record = so_far(BERT_TICKETS, conditions(tmp_path, data, sources=sources))
    scores, transfer, controls = record.matrices
    assert scores.columns == [f"{percent} %" for percent in range(0, 100, 10)]
    assert scores.ends == [""] * len(scores.rows), "one seed says nothing of what matches"
    rows = dict(zip(transfer.rows, transfer.values, strict=True))
    assert rows["SST-2"] == [0.0, None, None]
    assert rows["MRPC"] == [pytest.approx(-4.0), 0.0, None]
    assert rows["SST-2, all rows"] == [pytest.approx(1.0)] * 3
    counts = dict(zip(transfer.rows, transfer.ends, strict=True))
    assert (counts["SST-2, all rows"], counts["pre-trained weights"], counts["MRPC"]) == ("3", "0", "")
    assert controls.values[0] == [pytest.approx(54.0), pytest.approx(51.0), None, None]
    told = {f"{one.row} {one.column}": one.ours for one in record.published}
    assert told["SST-2 all weights"] == pytest.approx(89.0)
    assert told["pre-trained weights → MRPC transfer at 70\u00a0%"] == pytest.approx(-1.0)
    assert told["masked LM → MRPC transfer at 70\u00a0%"] is None
    assert "parts are finished: what is missing is blank." in record.notes[0]
    assert any(note.startswith("Set by hand: sources = ") for note in record.notes)
    assert "was not measured" in record.finding or "were not measured" in record.finding
    assert (tmp_path / "so-far.json").exists()
    assert not (tmp_path / "record.json").exists(), "it is not finished"
    assert "A blank cell was not measured." in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_findings_are_told_from_the_figures(tmp_path, data):
    searched(tmp_path)
    for seed in (0, 1, 2):
        for source, gain in {**GAIN, "sst2": -0.02, "mrpc": -0.02, "stsb": -0.02}.items():
            if source in GAIN:
                search(tmp_path, source, seed, 0.8, rounds=7)
            for task in TASKS:
                if task != source:
                    own = OWN[task] - 0.01 + 0.01 * seed
                    train(tmp_path, f"transfer/50/{source}-to-{task}/seed-{seed}", own + gain + 0.001 * seed)
    plan = conditions(tmp_path, data, sources=",".join(SOURCES))
    completed = [tmp_path / f"tickets/mlm/seed-{seed}/completed" for seed in (0, 1, 2)]
    for folder in completed:  # so that no masked LM's ticket is opened
        folder.mkdir()
        for number in (5, 7):
            (folder / f"round-{number:02d}.safetensors").touch()
    record = BERT_TICKETS.conclude(plan)
    assert "a sparse ticket matches on every task (+50 % sparse, beyond chance)" in record.finding
    assert "masked LM's ticket transfers best at 50 %" in record.finding.partition("do not")[0]
    assert "10,000 rows of SST-2 transfer better than 2,500 at 50 %" in record.finding
    many = record.matrices[2]
    assert many.title.endswith("at 50 %")
    assert many.ends[many.rows.index("masked LM")] == "3"
    assert many.spreads[many.rows.index("masked LM")] == [pytest.approx(0.1)] * 3


def test_slips_are_refused_before_anything_runs(tmp_path, data):
    with pytest.raises(KnobError, match="no sparsity of 75 %"):
        conditions(tmp_path, data, sparsity=75)
    with pytest.raises(KnobError, match="sources"):
        conditions(tmp_path, data, sources="sst3")
    with pytest.raises(KnobError, match="there is no knob 'epoch'"):
        conditions(tmp_path, data, epoch=1)
    assert set(GLUE.find(data)) == set(GLUE.files)


def test_the_grid_may_grow_but_not_change(tmp_path, data):
    free = {"sources", "seeds"}
    assert not _write_or_match(tmp_path, conditions(tmp_path, data, seeds=1, sources="mlm"), free)
    assert not _write_or_match(tmp_path, conditions(tmp_path, data, seeds=3), free), "it grew"
    assert _write_or_match(tmp_path, conditions(tmp_path, data, seeds=3), free)
    with pytest.raises(MismatchError, match=r"epochs: 3\.0 → 1\.0"):
        _write_or_match(tmp_path, conditions(tmp_path, data, epochs=1), free)


def test_a_record_of_it_reads_back(tmp_path, data):
    searched(tmp_path)
    record = so_far(BERT_TICKETS, conditions(tmp_path, data, sources="sst2,mrpc,stsb", common="false"))
    assert Record.load(tmp_path / "so-far.json") == record


@pytest.mark.slow
def test_a_small_grid_runs_with_one_command_and_grows_with_another(tmp_path):
    """Real children: a search, that of a masked LM whose ticket is completed, the start's own, and their cells."""
    few = (
        "reproduce",
        "bert-tickets",
        "--quick",
        "--out",
        tmp_path / "out",
        "--set",
        "targets=sst2",
        "--set",
        "epochs=1",
    )
    said = limbeck(*few, "--set", "sources=sst2,start", "--set", "controls=")
    assert said.code == 0, said.err
    first = Record.load(tmp_path / "out")
    assert [matrix.rows for matrix in first.matrices][1] == ["sentiment", "pre-trained weights"]
    before = (tmp_path / "out/tickets/sst2/seed-0/record.json").stat().st_mtime_ns
    said = limbeck(*few, "--set", "sources=sst2,start,mlm", "--set", "controls=")
    assert said.code == 0, said.err
    assert (tmp_path / "out/tickets/sst2/seed-0/record.json").stat().st_mtime_ns == before, "it is not done again"
    record = Record.load(tmp_path / "out")
    transfer = record.matrices[1]
    assert transfer.rows == ["sentiment", "pre-trained weights", "masked LM"]
    assert transfer.is_whole
    tickets = [
        tmp_path / "out/tickets" / name
        for name in (
            "sst2/seed-0/arms/model-seed0/tickets/round-02.safetensors",
            "start/seed-0/arms/model-seed0/tickets/round-02.safetensors",
            "mlm/seed-0/completed/round-02.safetensors",
        )
    ]
    masks = [Ticket.load(file).mask for file in tickets]
    assert len({(mask.remaining, mask.total) for mask in masks}) == 1, "one sparsity for all cells"
    assert len({mask.checksum for mask in masks}) == 3
    assert len({tuple(sorted(Ticket.load(file).start.items())) for file in tickets}) == 1, "and one start"
