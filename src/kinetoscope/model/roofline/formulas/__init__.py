"""Formulas of what operators compute and move, by families."""
