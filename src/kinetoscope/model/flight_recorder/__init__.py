"""Dumps of torch's Flight Recorder: which collectives a rank has called, and how far each of them is."""
