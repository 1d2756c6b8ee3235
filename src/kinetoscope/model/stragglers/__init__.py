"""Stragglers: the rank that delays the others, and by what."""
