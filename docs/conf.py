"""Sphinx settings. `make docs` builds with warnings as errors and needs no network."""

from importlib.metadata import version as installed_version

from kinetoscope.model.device.peaks import PEAKS, SCALES, UNITS
from kinetoscope.model.roofline.formulas.registry import FAMILIES
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


def _operators():
    """The operators with formulas: a paragraph a family. Operators in place are like those that are not."""
    for title, family in FAMILIES.items():
        names = [name for name in sorted(family) if name.removesuffix("_") not in family or not name.endswith("_")]
        yield f"**{title}.** " + ", ".join(f"`{name}`" for name in names) + "."


myst_substitutions = {
    "operators": "\n\n".join(_operators()),
    "symptoms": "\n".join(["| code | what it means |", "| --- | --- |", *_ROWS]),
    "peaks": "\n".join(_peaks()),
}
myst_heading_anchors = 3
exclude_patterns = ["_build", "decisions/template.md"]

html_extra_path = ["_build/extra"]  # the live reports, which live.py makes
html_theme = "furo"
html_title = "Kinetoscope"
html_copy_source = False
html_show_sourcelink = False
