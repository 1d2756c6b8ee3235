"""Histories of runs, as the recorder writes them: rows of steps, and marks, while the job runs and after it."""
