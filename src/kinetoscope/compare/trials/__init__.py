"""Trials that were run: the statistics of interleaved rounds, whether a change is kept, and the table of all."""
