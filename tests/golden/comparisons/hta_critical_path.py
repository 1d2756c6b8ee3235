"""HTA's critical path of an annotation."""

from __future__ import annotations

import re
from typing import Any

from kinetoscope import Selection, read
from kinetoscope.analyses.critical_path import critical_path
from tests.golden.comparison import fewest
from tests.golden.hta import Case, results
from tests.golden.outcome import Outcome

ANALYSIS = "critical_path"
SECTIONS = ("critical_path", "critical_path_2", "critical_path_3")
