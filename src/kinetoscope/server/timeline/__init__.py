"""The timeline's tiles, ranges and events."""
