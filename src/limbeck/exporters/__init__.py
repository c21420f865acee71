"""One file per target: a saved model in, a folder that another engine runs out."""
