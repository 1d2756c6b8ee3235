"""Use of the device: busy and idle intervals, launches, queues, copies, hardware and its peaks."""
