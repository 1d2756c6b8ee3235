"""Jobs that hang, and some that do not, with known causes: `python -m tests.hangs` shows what the verdict says about them."""
