"""The rank, the collective and the line that a job waits for, by what each rank has called."""
