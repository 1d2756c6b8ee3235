"""Which rank delays the others, and by what."""
