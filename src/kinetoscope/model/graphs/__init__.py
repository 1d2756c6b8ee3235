"""Graphs of CUDA and HIP: captures, their replays, and the calls that a replayed kernel was captured in."""
