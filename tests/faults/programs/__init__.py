"""Small real programs that run on the CPU with torch, each with one thing wrong and, asked otherwise, without.

A module is a program: `CODE` of the rule that has to find what is wrong, `NAME`, and `program(fixed)`, a context that
gives a function for one step. `python -m tests.faults.programs NAME FOLDER` measures both twins in turns, records both
with `kinetoscope.profile`, and prints what it measured as JSON.
"""
