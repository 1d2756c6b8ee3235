"""The numbers of a run, sent to where people look while it goes on: Prometheus, OpenTelemetry, trackers of experiments.

They are read from the series that the recorder writes, in a process of their own: nothing of it runs in the job.
"""
