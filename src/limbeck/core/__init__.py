"""Promises between rooms. Nothing here imports torch."""
