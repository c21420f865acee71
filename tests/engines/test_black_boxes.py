"""A program or an address translates line by line; what goes wrong is said with its name and the way on."""

import json
import math
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from limbeck.core.errors import KnobError, LimbeckError
from limbeck.engines.black_boxes import Command, Endpoint


def program(tmp_path, body):
    path = tmp_path / "my teacher.py"
    path.write_text("import os, sys\n" + body, encoding="utf-8")
    return f"{sys.executable} '{path}'"


UPPER = "for line in sys.stdin.buffer: sys.stdout.buffer.write(line.decode().upper().encode())\n"


def test_every_line_comes_back_in_its_place(tmp_path):
    sources = ["eins", "", "zwei\nzeilen\r\nhier", "grüße 你好", "a\u2028b"]
    found = Command(program(tmp_path, UPPER), at_once=2).translate(sources)
    assert [row[0].text for row in found] == ["EINS", "", "ZWEI ZEILEN HIER", "GRÜSSE 你好", "A B"]
    assert all(len(row) == 1 and math.isnan(row[0].log_p) for row in found)
    assert Command(program(tmp_path, UPPER)).translate([]) == []


def test_a_program_that_writes_while_it_reads_does_not_lock(tmp_path):
    noisy = "for line in sys.stdin:\n    sys.stdout.write(line); sys.stderr.write(line)\n"
    sources = [f"{number} " + "word " * 4000 for number in range(100)]  # 2 MB, many times a pipe's room
    found = Command(program(tmp_path, noisy)).translate(sources)
    assert [row[0].text for row in found] == [source.strip() for source in sources]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("print('one')\n", r"wrote 1 lines for 3 sources"),
        ("print('1\\n2\\n3\\n4')\n", r"wrote 4 lines for 3 sources"),
        (
            "print('one')\nprint('no memory', file=sys.stderr)\nsys.exit(3)\n",
            r"ended with code 3 after 1 lines for 3 sources; its last words: no memory",
        ),
        ("sys.stdout.flush(); os.kill(os.getpid(), 9)\n", r"ended by signal 9 after 0 lines"),
        ("sys.stdout.buffer.write(b'a\\nb\\xff\\nc\\n')\n", r"line 2 of the command .* is not UTF-8"),
    ],
)
def test_a_program_that_fails_is_named(tmp_path, body, message):
    with pytest.raises(LimbeckError, match=message) as caught:
        Command(program(tmp_path, body)).translate(["a", "b", "c"])
    assert "my teacher.py" in caught.value.problem
    assert "kept" in caught.value.remedy
    assert "--resume" in caught.value.remedy


def test_a_program_that_is_not_there(tmp_path):
    with pytest.raises(KnobError, match="'no-such-program --x' cannot be started: there is no program"):
        Command("no-such-program --x")
    for command in ("", "cat 'open"):
        with pytest.raises(KnobError):
            Command(command)


def test_black_boxes_have_no_beams(tmp_path):
    for engine in (Command("cat"), Endpoint("http://127.0.0.1:9")):
        for beam, nbest in ((5, 1), (2, 2)):
            with pytest.raises(KnobError, match="one translation"):
                engine.translate(["a"], beam, nbest)


@pytest.fixture
def serve(monkeypatch):
    """Starts a server that answers with the (code, body) that `reply` makes of a call's number and sources."""
    monkeypatch.setenv("no_proxy", "*")
    servers = []

    def start(reply):
        calls = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                sources = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["sources"]
                calls.append(sources)
                code, body = reply(len(calls), sources)
                if code == 0:  # hangs up
                    self.close_connection = True
                    return
                self.send_response(code)
                self.end_headers()
                self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/translate", calls

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("wrap", [lambda texts: texts, lambda texts: {"translations": texts}])
def test_an_address_is_asked_in_portions(serve, wrap):
    address, calls = serve(lambda call, sources: (200, wrap([source.upper() for source in sources])))
    sources = [f"grüße {number}" for number in range(5)]
    found = Endpoint(address, at_once=2).translate(sources)
    assert [row[0].text for row in found] == [source.upper() for source in sources]
    assert calls == [sources[:2], sources[2:4], sources[4:]]


@pytest.mark.parametrize("trouble", [(500, b"busy"), (503, b""), (0, b"")])
def test_what_may_pass_is_tried_again(serve, trouble):
    address, calls = serve(lambda call, sources: trouble if call < 4 else (200, sources))
    assert Endpoint(address, wait=0.001).translate(["a"])[0][0].text == "a"
    assert len(calls) == 4


def test_what_does_not_pass_is_said(serve):
    address, calls = serve(lambda call, sources: (502, b"no teacher\nbehind me"))
    with pytest.raises(LimbeckError, match=r"answered 502 Bad Gateway: no teacher \(4 tries\)") as caught:
        Endpoint(address, wait=0.001).translate(["a"])
    assert len(calls) == 4
    assert "--resume" in caught.value.remedy


def test_a_wrong_question_is_not_asked_again(serve):
    address, calls = serve(lambda call, sources: (403, b"key missing\nsee the manual"))
    with pytest.raises(LimbeckError) as caught:
        Endpoint(address, wait=0.001).translate(["a"])
    assert caught.value.problem == f"{address} answered 403 Forbidden: key missing"
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "did not answer in JSON"),
        ({"text": "x"}, "no list of translations"),
        ([1, 2], "no list of translations"),
        (["x"], "1 translations for 2 sources"),
    ],
)
def test_answers_that_cannot_be_used(serve, body, message):
    address, calls = serve(lambda call, sources: (200, body))
    with pytest.raises(LimbeckError, match=message):
        Endpoint(address, wait=0.001).translate(["a", "b"])
    assert len(calls) == 1


def test_nobody_listens(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(LimbeckError, match=r"gave no answer: .* \(2 tries\)"):
        Endpoint("http://127.0.0.1:9/", tries=2, wait=0.001).translate(["a"])
    for address in ("file:///etc/passwd", "localhost:80", ""):
        with pytest.raises(KnobError, match="not an address"):
            Endpoint(address)
