"""Starts a command, waits for it and writes down what it took. Run by `measure`, as a script, with few imports.

    python -I -S launcher.py REPORT COMMAND...

A process inherits the memory peak of the one that started it, so a command is started from here, where that is small.
"""

import json
import os
import sys
import time

if __name__ == "__main__":
    report, *command = sys.argv[1:]
    began = time.perf_counter()
    pid = os.posix_spawnp(command[0], command, os.environ)
    _, code, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - began
    took = {"code": code, "wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss * 1024}
    with open(report, "w") as file:  # noqa: PTH123 - pathlib would cost more than all the rest
        json.dump(took, file)
