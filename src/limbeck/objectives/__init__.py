"""What a student is asked to imitate. One method, one file."""

from limbeck.objectives.hinton import SoftTargets
from limbeck.objectives.labels import Labels
from limbeck.objectives.logits import LogitRegression

__all__ = ["Labels", "LogitRegression", "SoftTargets"]
