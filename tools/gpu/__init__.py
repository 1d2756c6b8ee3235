"""What to record on a machine with a GPU that is lent by the half hour, and what to judge from it afterwards.

python -m tools.gpu record --out DIR        on that machine: needs torch alone, and no network
python -m tools.gpu judge DIR/*.tar         anywhere, without a device
"""
