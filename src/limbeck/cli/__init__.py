"""The command line. Each verb is a file; what is heavy is imported when a verb runs."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Runs a verb. A person's mistake ends in a sentence and exit code 2, Ctrl-C in 130; a traceback is our mistake."""
    # Hub and tokenizer chatter would break the one display.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from limbeck.cli.app import app
    from limbeck.core.errors import LimbeckError

    try:
        app()
    except LimbeckError as error:
        print(f"limbeck: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print(
            "\nlimbeck: stopped; run the same command with --resume to go on from the last checkpoint", file=sys.stderr
        )
        sys.exit(130)
