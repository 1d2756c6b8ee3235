"""What one file holds, as columns: events, strings, arguments, tracks, counters, and the symptoms of damage."""
