"""The plan of the distilled BiLSTM."""

from limbeck.core.task import TaskInfo
from limbeck.recipes.bilstm import BILSTM
from limbeck.recipes.recipe import find, to_table


def test_the_recipe_regresses_logits_and_leaves_labels_out():
    table = to_table(BILSTM.objective(TaskInfo(kind="classify", labels=("a", "b"))))
    assert {name: entry["weight"] for name, entry in table.items()} == {"labels": 0.0, "logits": 1.0}
    assert find("bilstm") is BILSTM
    assert BILSTM.defaults["student"]["family"] == BILSTM.defaults["augment"]["kind"] == "bilstm"
    assert "Adadelta" in BILSTM.text
