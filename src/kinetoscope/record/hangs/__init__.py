"""Files that are written when a job hangs: stacks of Python, dumps of the Flight Recorder and a note, of each rank."""
