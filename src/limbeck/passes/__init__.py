"""One file per way to make a model smaller."""
