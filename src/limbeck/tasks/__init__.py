"""One class per kind of problem."""
