"""Sample records, shared by the tests of the report."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import sample

from limbeck.core.record import Record


@pytest.fixture(params=list(sample.every()))
def any_record(request: pytest.FixtureRequest) -> Record:
    return sample.every()[request.param]


@pytest.fixture
def record() -> Record:
    return sample.distill()
