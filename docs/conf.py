"""Sphinx settings. `make docs` builds with warnings as errors and needs no network."""

from importlib.metadata import version as installed_version

from kinetoscope.model.device.peaks import PEAKS, SCALES, UNITS
from kinetoscope.model.roofline.formulas.family import NamedFormula
from kinetoscope.model.roofline.formulas.registry import FAMILIES

project = "Kinetoscope"
copyright = "2026, the Kinetoscope authors"  # noqa: A001 - the name Sphinx reads
release = installed_version("kinetoscope")

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist", "substitution"]
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
    """What operators cost: a table a family, a row for each formula. Operators in place are like those that are not."""
    for family in FAMILIES:
        yield f"### {family.title}\n\n| what counts | operators |\n| --- | --- |"
        rows = {}
        for name, entry in family.entries.items():
            if isinstance(entry.formula, NamedFormula):
                rows.setdefault(entry.formula.sentence, set()).add(name)
        for sentence, names in rows.items():
            listed = sorted(name for name in names if not (name.endswith("_") and name[:-1] in names))
            yield f"| {sentence} | {', '.join(f'`{name}`' for name in listed)} |"
        yield ""


myst_substitutions = {
    "operators": "\n".join(_operators()),
    "peaks": "\n".join(_peaks()),
}
myst_heading_anchors = 3
exclude_patterns = ["_build", "decisions/template.md"]

html_extra_path = ["_build/extra"]  # the live reports, which live.py makes
html_theme = "furo"
html_title = "Kinetoscope"
html_copy_source = False
html_show_sourcelink = False
