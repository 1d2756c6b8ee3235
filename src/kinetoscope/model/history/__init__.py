"""The whole run: every step of every rank as numbers, what explains them, and what changed when."""
