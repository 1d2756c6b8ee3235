"""Where work on many ranks runs: one module an engine. The registry of engines stands in `reading.py`."""
