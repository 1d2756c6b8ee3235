"""Kinetoscope inside other programs: one module each, which may import what it fits into."""
