"""Teachers that are only a program or an address: what goes wrong with them, and what is kept of what they said."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from limbeck.core.record import Record
from limbeck.engines import black_boxes
from running import files, limbeck
from tongues import write_pairs
from untaught import BRIEF, NEW, append, ends_well, of_files, program, told, train_sources

ROWS = 120


@pytest.fixture
def data(tmp_path):
    return write_pairs(tmp_path / "pairs", ROWS)


def assert_nothing_half_written(out: Path) -> None:
    found = files(out)
    assert not [name for name in found if name.endswith((".part", ".damaged")) or name == ".lock"]
    assert not found & {"record.json", "report.html", "student/config.json"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("print(*sources[1:], sep='\\n')", "wrote {less} lines for {all} sources"),
        ("print(*sources, 'more', sep='\\n')", "wrote {more} lines for {all} sources"),
        ("print('ah'); sys.exit('no memory left')", "ended with code 1 after 1 lines for {all} sources"),
        ("import os; os.kill(os.getpid(), 9)", "ended by signal 9 after 0 lines for {all} sources"),
        ("sys.stdout.buffer.write(b'gro\\xdfer\\n' * len(sources))", "line 1 of the command"),
    ],
)
def test_a_command_that_answers_badly(data, tmp_path, body, words):
    out = tmp_path / "run"
    command = program(tmp_path, body)
    said = limbeck("distill", *of_files(data), "--translate.command", command, *NEW, *BRIEF, "--out", out)
    problem, remedy = told(said)
    count = len({*train_sources(data)})
    assert words.format(all=count, less=count - 1, more=count + 1) in problem
    assert "(after 0 of " in problem
    assert "no memory left" in problem or "exit" not in body
    assert "--resume" in remedy
    assert_nothing_half_written(out)


def test_a_command_that_crashes_midway_goes_on_where_it_was(data, tmp_path):
    data = write_pairs(data.parent, 420)
    out, asked, mended = tmp_path / "run", tmp_path / "asked", tmp_path / "mended"
    command = program(
        tmp_path,
        "import os\n"
        f"with open({str(asked)!r}, 'a') as log: log.writelines(source + '\\n' for source in sources)\n"
        f"if len(sources) < 250 and not os.path.exists({str(mended)!r}): sys.exit('out of memory')\n"
        "print(*map(translate, sources), sep='\\n')",
    )
    job = ("distill", *of_files(data), "--translate.command", command, *NEW, *BRIEF, "--out", out)
    problem, remedy = told(limbeck(*job))
    assert "(after 256 of " in problem
    assert "out of memory" in problem
    assert "what it translated so far is kept" in remedy
    assert_nothing_half_written(out)
    kept = asked.read_text().splitlines()[:256]
    asked.write_text("")
    mended.touch()
    said = limbeck(*job, "--resume")
    assert said.code == 0, said.err
    again = asked.read_text().splitlines()
    assert set(train_sources(data)) - set(kept) <= set(again)
    assert not set(kept) & set(again)
    asked.write_text("")
    said = limbeck(*job, "--resume")
    assert said.code == 0, said.err
    assert not asked.read_text(), "of a finished run nothing is asked again, the test set neither"


def test_sources_alone_give_a_vocabulary_of_both_languages(data, tmp_path):
    untranslated = tmp_path / "alone.en"
    untranslated.write_text(data.read_text(encoding="utf-8"), encoding="utf-8")
    untranslated.with_suffix(".de").write_text("\n" * ROWS, encoding="utf-8")
    held_out = write_pairs(tmp_path / "held out", 40, seed=7)
    command, out = program(tmp_path, "print(*map(translate, sources), sep='\\n')"), tmp_path / "run"
    tests = ("--data.dev", held_out, "--data.test", held_out)
    record = ends_well(*of_files(untranslated)[2:], *tests, "--translate.command", command, *NEW, "--out", out)
    tokenizer = AutoTokenizer.from_pretrained(out / "student")
    ids = tokenizer("großer hund schläft")["input_ids"]
    assert tokenizer.unk_token_id not in ids
    assert not any("label" in note for note in record.notes)


def test_the_columns_of_a_comparison_may_have_shapes_of_their_own(data, tmp_path):
    file, out = tmp_path / "compare.toml", tmp_path / "run"
    file.write_text('recipes = "seq-kd"\n[columns.wide]\nrecipe = "seq-kd"\n[columns.wide.seq2seq]\nhidden = 32\n')
    command = program(tmp_path, "print(*map(translate, sources), sep='\\n')")
    brief = [word for word in BRIEF if word != "--no-baseline"]
    said = limbeck("compare", file, *of_files(data), "--translate.command", command, *NEW, *brief, "--out", out)
    assert said.code == 0, said.err
    record = Record.load(out)
    for arm in ("seq-kd", "wide"):
        built = AutoModelForSeq2SeqLM.from_pretrained(out / "arms" / f"{arm}-seed0" / "model")
        assert record.arm(arm).shape.hidden == built.config.d_model
        assert record.arm(arm).size.parameters == built.num_parameters()
    assert {("seq-kd", "plain-seq-kd"), ("wide", "plain-wide")} <= {(c.better, c.than) for c in record.comparisons}


def test_rows_without_a_target_are_used_and_told_of_truly(data, tmp_path):
    lines = data.with_suffix(".de").read_text(encoding="utf-8").splitlines()
    lines[::2] = [""] * len(lines[::2])
    data.with_suffix(".de").write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = program(tmp_path, "print(*map(translate, sources), sep='\\n')")
    shares = ("--data.dev-share", 0.2, "--data.test-share", 0.2)  # of the sixty with a target
    record = ends_well(*of_files(data)[2:], "--translate.command", command, *NEW, *shares, "--out", tmp_path / "run")
    rows = record.data.splits["train"].rows
    assert any(f"{rows} of the teacher's {rows} best translations are learnt from" in note for note in record.notes)
    assert not any("no label" in note or "no target" in note for note in record.notes)


class Moody(BaseHTTPRequestHandler):
    """Hangs up on whoever asks."""

    def do_POST(self):
        self.connection.close()

    def log_message(self, *_):
        pass


def test_an_endpoint_that_is_down_or_hangs_up(data, tmp_path, monkeypatch):
    monkeypatch.setattr(black_boxes.time, "sleep", lambda seconds: None)
    server = HTTPServer(("127.0.0.1", 0), Moody)
    address = f"http://127.0.0.1:{server.server_port}/translate"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    for mood in ("hangs up", "down"):
        if mood == "down":
            server.shutdown()
            server.server_close()
            thread.join()
        out = tmp_path / mood
        said = limbeck("distill", *of_files(data), "--translate.endpoint", address, *NEW, *BRIEF, "--out", out)
        problem, remedy = told(said)
        assert f"{address} gave no answer" in problem
        assert "(4 tries)" in problem
        assert "--resume" in remedy
        assert_nothing_half_written(out)


def test_a_separator_inside_a_line_reaches_a_program_as_one_line(data, tmp_path):
    append(data, [(f"a dog\u2028the cat {n}", f"ein hund der kater {n}") for n in range(30)])
    command = program(tmp_path, "print(*map(translate, sources), sep='\\n')")
    out = tmp_path / "run"
    ends_well(*of_files(data)[2:], "--translate.command", command, *NEW, "--out", out)
    kept = [
        json.loads(line)["written"][0][0]
        for path in (out / "teacher-cache" / "translations").rglob("*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert len(kept) == len({*train_sources(data)})
    assert any(text.startswith("ein hund der kater ") for text in kept)


def test_a_prefix_is_read_by_the_model_and_not_taken_for_text(data, tmp_path):
    prefix = "translate English to German: "
    asked = tmp_path / "asked"
    command = program(
        tmp_path,
        f"with open({str(asked)!r}, 'a') as log: log.writelines(source + '\\n' for source in sources)\n"
        f"said = [source.removeprefix({prefix!r}) for source in sources]\n"
        "print(*[one if i % 2 else translate(one) for i, one in enumerate(said)], sep='\\n')",
    )
    out = tmp_path / "run"
    words = (*of_files(data)[2:], "--translate.command", command, "--parallel.prefix", prefix, *NEW)
    record = ends_well(*words, "--out", out)
    assert all(line.startswith(prefix) for line in asked.read_text().splitlines())
    assert any("copies its source" in note for note in record.notes), "a copy is one without the prefix too"
    assert record.samples[0].source.startswith(prefix)
