"""What a model is worth: quality, fidelity to its teacher, size, speed, memory, and whether a difference is real."""
