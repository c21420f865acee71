"""Teachers: a live network, or its earlier answers from memory or disk."""
