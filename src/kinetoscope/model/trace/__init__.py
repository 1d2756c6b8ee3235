"""The content of one file as columns: events, strings, arguments, tracks, counters, and the symptoms of damage."""
