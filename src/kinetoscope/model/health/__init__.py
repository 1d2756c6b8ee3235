"""Checks of a trace: damage, and what was not recorded."""
