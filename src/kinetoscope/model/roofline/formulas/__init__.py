"""What operators compute and move: a formula each, by families."""
