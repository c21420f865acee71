"""Trainers whose loss is an Objective."""
