"""Two runs: where the difference of their times is."""
