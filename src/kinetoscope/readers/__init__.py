"""Bytes → Trace: one module a format. The registry of readers stands in `reading.py`."""
