"""Traces: Trace (one rank), Job (all ranks), the declared tables, steps and correlation."""
