"""The command line. Each verb is a file; what is heavy is imported when a verb runs."""

from __future__ import annotations

import os
import sys

STOPPED = 130  # what shells call a program that ended by Ctrl-C
_RESUME = "; run the same command with --resume to go on from where it was"
_AGAIN = "; run the same command again to go on from where it was"
_GO_ON = {
    "distill": _RESUME,
    "compare": _RESUME,
    "train": _RESUME,
    "demo": _AGAIN,
    "reproduce": _AGAIN,
    "cache": _AGAIN,
}


def main() -> None:
    """Runs a verb. A person's mistake ends in a sentence and exit code 2, Ctrl-C in 130; a traceback is our mistake."""
    # Hub and tokenizer chatter would break the one display.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from limbeck.cli.answers import answered_at_once
    from limbeck.core.errors import LimbeckError
    from limbeck.core.orphan import end_with_parent

    end_with_parent()
    try:
        if answered_at_once(sys.argv[1:]):
            return
        from limbeck.cli.app import app

        app(sys.argv[1:])(prog_name="limbeck")
    except LimbeckError as error:
        print(f"limbeck: {error}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as end:
        # typer turns Ctrl-C into an exit, so it comes as either.
        if isinstance(end, SystemExit) and end.code != STOPPED:
            raise
        print(f"\nlimbeck: stopped{_GO_ON.get(sys.argv[1], '') if sys.argv[1:] else ''}", file=sys.stderr)
        sys.exit(STOPPED)
