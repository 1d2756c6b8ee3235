"""What the page asks about the memory of a snapshot: bands over a stretch of its history, the heap at an instant."""
