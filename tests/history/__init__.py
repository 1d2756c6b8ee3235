"""Histories of runs: drawn ones, and jobs that are killed at any moment."""
