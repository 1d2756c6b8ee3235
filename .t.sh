cd /work/wt/srv && PYTHONPATH=src nice -n 5 /work/main/.venv/bin/python -m pytest -q -n 0 "$@"
