"""What runs a model that writes: a list of sources in, translations out."""
