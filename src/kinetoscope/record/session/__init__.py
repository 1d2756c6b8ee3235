"""One recording: its windows, signals and requests."""
