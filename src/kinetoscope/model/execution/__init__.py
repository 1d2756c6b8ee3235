"""Host and device at work: the call tree of each thread, autograd, device work, streams, synchronization."""
