"""Pure functions over tensors. Its modules load torch, so objectives import them where they compute."""
