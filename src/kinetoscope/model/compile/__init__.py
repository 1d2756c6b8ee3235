"""Compiled programs: what torch.compile made of the job's code, from the trace and from the files beside it."""
