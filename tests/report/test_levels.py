"""A search for a ticket on the page: what matches, what is said, what is drawn."""

import pytest
import sample

from limbeck.core.record import Floor
from limbeck.report import Report, levels
from limbeck.report.summary import conclusion, headline


def search(*means, **changes):
    record = sample.ticket_search(*means).but(floor=Floor(title="most frequent class", quality={"accuracy": 0.5}))
    return record.but(**changes), record.arms[0]


def test_the_sparsest_within_one_standard_deviation_matches():
    record, arm = search(0.88, 0.885, 0.871, 0.869, 0.7)  # ± 0.01
    assert levels.matching(record, arm).pruned == pytest.approx(0.2)
    assert headline(record) == (
        "With 80\u00a0% of its weights the model reaches accuracy 87.1 ± 1.0\u00a0%, "
        "with all of them 88.0 ± 1.0\u00a0%."
    )
    assert "has lost 20\u00a0% of its weights" in conclusion(record)


def test_a_sparser_one_may_match_again():
    record, arm = search(0.88, 0.85, 0.88, 0.7)
    assert levels.matching(record, arm).pruned == pytest.approx(0.2)


def test_nothing_matches_a_model_at_the_floor():
    record, arm = search(0.505, 0.5, 0.5)
    assert levels.matching(record, arm) is None
    assert "not clearly above the most frequent class" in conclusion(record)


def test_none_may_match():
    record, arm = search(0.88, 0.8, 0.7)
    assert levels.matching(record, arm) is None
    assert conclusion(record).startswith("No sparsity that was tried matches")
    assert "With 80\u00a0% of its weights" in headline(record), "the sparsest is told instead"


def test_one_seed_says_nothing_of_what_matches():
    record, arm = search()
    record = record.but(arms=[arm.model_copy(update={"runs": arm.runs[:1]})])
    assert conclusion(record).startswith("One seed says nothing")


def test_the_page_draws_quality_and_the_best_step():
    record, _ = search()
    page = Report((record,)).html()
    assert "Accuracy against sparsity" in page
    assert "Where dev was best" in page
    assert "weights pruned, %" in page
