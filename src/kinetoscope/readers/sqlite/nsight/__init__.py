"""Nsight Systems' recordings, exported as SQLite: `nsys export --type sqlite --lazy=false report.nsys-rep`.

One file has the processes of a machine; each that works on a device is a rank. Its tables come and go with versions and
options, so each is read if it is there. The user guide of Nsight Systems has what they mean, and so have the comments
in their definitions.
"""
