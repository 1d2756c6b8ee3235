"""Jobs of real processes that hang on gloo: `python -m tests.hangs.real [--times N] [CAUSE ...]`."""
