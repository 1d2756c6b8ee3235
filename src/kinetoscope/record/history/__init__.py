"""The history of a run: the times of each of its steps, and marks of what explains them, in one file of each rank."""
