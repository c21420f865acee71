"""`python -m MODULE …`, or of a script, without seconds of importing: forked from one that has imported everything.

`Forked` stands for subprocess.Popen. The child is a process of its own in every other respect: its session, signals,
streams, working folder and environment are those that were asked for, and it can be killed.
"""

import atexit
import contextlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from functools import cache
from typing import Any

IMPORTED = (
    *("limbeck.cli", "limbeck.jobs.compare", "limbeck.jobs.distill", "limbeck.jobs.train", "limbeck.jobs.cache"),
    *("limbeck.jobs.bench", "limbeck.measure.speed_probe", "limbeck.report", "limbeck.exporters.onnx_parity"),
    *("ctranslate2", "onnxruntime", "transformers.models.bert.modeling_bert", "transformers.models.marian"),
)


class Forked(subprocess.Popen):
    """Of `[sys.executable, …, "-m", MODULE, *arguments]` or `[sys.executable, SCRIPT, *arguments]`."""

    def _execute_child(self, args, executable, preexec, close, keep, cwd, env, info, flags, shell, *streams):
        reads_in, writes_in, reads_out, writes_out, reads_err, writes_err = streams[:6]
        module = "-m" in args
        what, *words = map(os.fspath, args[args.index("-m") + 1 if module else 1 :])
        asked = {"what": what, "module": module, "words": words, "cwd": os.fspath(cwd or os.getcwd())}
        asked["env"] = dict(os.environ if env is None else env)
        ends = [reads_in, writes_out, writes_err]
        self.pid = ask(asked, [place if end == -1 else end for place, end in enumerate(ends)])
        self._child_created = True
        # As subprocess does it: ours stay open, and the child has its own.
        theirs = {end for end, ours in zip(ends, (writes_in, reads_out, reads_err), strict=True) if ours != -1}
        for end in theirs:
            os.close(end)

    def _internal_poll(self, *_, **__):
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self._handle_exitstatus(status)
        return self.returncode

    def _try_wait(self, wait_flags):
        found = ask({"wait": self.pid, "flags": wait_flags})
        return (self.pid, found["status"]) if found else (0, 0)


def run(command: list[Any], **how: Any) -> subprocess.CompletedProcess:
    """As subprocess.run with its output captured."""
    child = Forked(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)
    out, err = child.communicate(timeout=300)
    return subprocess.CompletedProcess(command, child.returncode, out, err)


def ask(what: dict[str, Any], files: list[int] | None = None) -> Any:
    """The answer of this process's nursery, which is born with the first question."""
    ours = nursery(os.getpid())
    content = json.dumps(what).encode()
    socket.send_fds(ours, [len(content).to_bytes(4, "big")], files or [])
    ours.sendall(content)
    size = int.from_bytes(_exactly(ours, 4), "big")
    return json.loads(_exactly(ours, size))


@cache
def nursery(owner: int) -> socket.socket:
    """Where the process `owner` asks; one that was forked from it has a nursery of its own."""
    ours, theirs = socket.socketpair()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _exactly(ours: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = ours.recv(size - len(found))
        if not part:
            raise EOFError("the nursery has ended")
        found += part
    return found


def tend(asking: socket.socket) -> None:
    """Gives birth, and tells how children ended, until nobody can ask any more."""
    while True:
        head, files, *_ = socket.recv_fds(asking, 4, 3)
        if not head:
            return
        asked = json.loads(_exactly(asking, int.from_bytes(head + _exactly(asking, 4 - len(head)), "big")))
        answer = json.dumps(_ended(asked) if "wait" in asked else _born(asked, files, asking)).encode()
        asking.sendall(len(answer).to_bytes(4, "big") + answer)


def _ended(asked: dict[str, Any]) -> dict[str, int] | None:
    try:
        pid, status = os.waitpid(asked["wait"], asked["flags"])
    except ChildProcessError:  # told before
        return {"status": 0}
    return {"status": status} if pid else None


def _born(asked: dict[str, Any], files: list[int], asking: socket.socket) -> int:
    if pid := os.fork():
        for file in files:
            os.close(file)
        return pid
    code = 1
    try:
        asking.close()
        os.setsid()
        for place, file in enumerate(files):
            os.dup2(file, place)
        os.closerange(3, 3 + max(files, default=0))
        _become(asked)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        atexit._run_exitfuncs()
        os._exit(code)


def _become(asked: dict[str, Any]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which the nursery does not heed
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    for place, (name, how) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        setattr(sys, name, open(place, how, encoding="utf-8", buffering=1, closefd=False))  # noqa: SIM115
    sys.argv = [asked["what"], *asked["words"]]
    (runpy.run_module if asked["module"] else runpy.run_path)(asked["what"], run_name="__main__")


if __name__ == "__main__":
    for module in IMPORTED:
        __import__(module)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a key pressed for the tests is not meant for the nursery
    atexit._clear()
    tend(socket.socket(fileno=int(sys.argv[1])))
