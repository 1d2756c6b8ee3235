"""Which files are traces, and which rank each of them is."""
