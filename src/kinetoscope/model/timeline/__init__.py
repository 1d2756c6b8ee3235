"""The timeline: tracks, their layout, ranges, events and search."""
