"""Sphinx settings. `make docs` builds with warnings as errors and needs no network."""

from importlib.metadata import version as installed_version

from kinetoscope.model.trace.symptoms import SYMPTOMS

project = "Kinetoscope"
copyright = "2026, the Kinetoscope authors"  # noqa: A001 - the name Sphinx reads
release = installed_version("kinetoscope")

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist", "substitution"]
_ROWS = [f"| `{code}` | {meaning} |" for code, meaning in SYMPTOMS.items()]
myst_substitutions = {"symptoms": "\n".join(["| code | what it means |", "| --- | --- |", *_ROWS])}
myst_heading_anchors = 3
exclude_patterns = ["_build", "decisions/template.md"]

html_theme = "furo"
html_title = "Kinetoscope"
html_copy_source = False
html_show_sourcelink = False
