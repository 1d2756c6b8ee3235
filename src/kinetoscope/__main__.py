"""`python -m kinetoscope`: the command line."""

import sys

from kinetoscope.cli import main

sys.exit(main())
