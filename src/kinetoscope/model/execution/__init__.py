"""What ran where: the call tree of each thread, autograd, device work, streams, synchronization."""
