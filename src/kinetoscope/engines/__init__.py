"""Where work on many ranks runs: one module an engine. The table of engines is in `reading.py`."""
