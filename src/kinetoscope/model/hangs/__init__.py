"""Which rank, which collective and which line a job waits for, by what each rank has called."""
