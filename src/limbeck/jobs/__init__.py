"""What is done with a plan: one pipeline, and one file per verb."""
