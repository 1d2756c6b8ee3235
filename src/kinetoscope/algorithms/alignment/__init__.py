"""Alignment of sequences and clocks."""
