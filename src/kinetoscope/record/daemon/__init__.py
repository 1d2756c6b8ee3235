"""The daemon that watches the processes of a machine."""
