"""Code in docstrings and pages."""

import re
from textwrap import dedent


def example_of(docstring: str) -> str:
    """The indented block under the heading `Example`."""
    rest = dedent(docstring).split("Example:\n", 1)[1].lstrip("\n")
    block = re.match(r"(?:[ \t]+.*\n?|\n)+", rest)
    return dedent(block[0])


def blocks_of(page: str, language: str = "python") -> list[str]:
    """The fenced blocks of a Markdown page."""
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.M | re.S)
