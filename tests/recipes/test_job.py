"""What the jobs share."""

from limbeck.recipes.job import passed
from limbeck.students.open_translator import open_translator
from untaught import SHAPE, make_teacher


def test_rows_pass_through_what_is_no_table_of_words(tmp_path):
    """A translator has one table of words under four names; counted as four, a small one would cost less than none."""
    network, _ = open_translator(make_teacher(tmp_path, ["a dog", "ein hund"]))
    words, places = network.model.shared.weight.numel(), 2 * SHAPE["positions"] * SHAPE["hidden"]
    assert passed(network) == network.num_parameters() - words - places
