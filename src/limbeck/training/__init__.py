"""An optimiser and its steps."""
