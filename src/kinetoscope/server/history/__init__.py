"""What the page History asks while a run goes on: how far it is, its step times, and when there is more."""
