"""Sphinx settings. `make docs` builds with warnings as errors and needs no network."""

from importlib.metadata import version as installed_version

from kinetoscope.model.device.peaks import PEAKS, SCALES, UNITS
from kinetoscope.model.trace.symptoms import SYMPTOMS

project = "Kinetoscope"
copyright = "2026, the Kinetoscope authors"  # noqa: A001 - the name Sphinx reads
release = installed_version("kinetoscope")

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist", "substitution"]
_ROWS = [f"| `{code}` | {meaning} |" for code, meaning in SYMPTOMS.items()]
_NAMES = [name for name in UNITS if any(name in peak.rates for peak in PEAKS)]


def _peaks():
    """The table of peaks: a row a product."""
    yield f"| device | {' | '.join(_NAMES)} | checked | datasheet |"
    yield "| --- |" + " --: |" * len(_NAMES) + " --- | --- |"
    for peak in PEAKS:
        rates = [f"{peak.rates[name] / SCALES[UNITS[name]]:g}" if name in peak.rates else "" for name in _NAMES]
        title, _, address = peak.source.rpartition(", ")
        yield f"| {peak.product} | {' | '.join(rates)} | {peak.checked} | [{title}]({address}) |"


myst_substitutions = {
    "symptoms": "\n".join(["| code | what it means |", "| --- | --- |", *_ROWS]),
    "peaks": "\n".join(_peaks()),
}
myst_heading_anchors = 3
exclude_patterns = ["_build", "decisions/template.md"]

html_theme = "furo"
html_title = "Kinetoscope"
html_copy_source = False
html_show_sourcelink = False
