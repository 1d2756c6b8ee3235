"""Sphinx settings. `make docs` builds with warnings as errors and needs no network."""

from importlib.metadata import version as installed_version

project = "Kinetoscope"
copyright = "2026, the Kinetoscope authors"  # noqa: A001 - the name Sphinx reads
release = installed_version("kinetoscope")

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "decisions/template.md"]

html_theme = "furo"
html_title = "Kinetoscope"
html_copy_source = False
html_show_sourcelink = False
