"""Answers about a run that goes on, for the page History: how far it is, its step times, when there is more."""
