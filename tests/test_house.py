"""The names in `src` keep to rules that a new reader can rely on; each list of exceptions may only become shorter."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import house
from tests.conftest import ROOT
from tools import house as counts

pytestmark = pytest.mark.xdist_group("house")  # one worker reads the source

SOURCE = ROOT / "src" / "kinetoscope"
SHORTEST_MODULE_LINES = 30
LONGEST_DECISION_WORDS = 600


def words(text: str) -> set[str]:
    return set(text.split())


SHARED_CLASS_NAMES = words("KinetoscopeCallback")
"""Classes of which two modules have one each."""

BARE_CONSTANTS = words("ALL FIRST LAST MARKS NONE OWN _NO_LIMIT")
"""Constants whose name has no noun."""

SHORT_MODULES = words("cli/summary.py")

NO_NOUNS = words("""
    a about afar after again ahead alike all alone always and around as aside astray at away bare before best beyond
    both by clear clearly close coarse current cut deep deepest early either enough ever everything everywhere exact
    fair far fast fastest few fewest first fitting flat for fresh from full further furthest good here hidden high
    highest how in inside kept known large largest last late lately least left like likely limit little long longest
    loose low many marks mixed more most much narrowest near nearer negligible never next nice no none not notable
    nothing of off often old oldest on once one ones only other others ours out own plain poor quick quiet rare
    ratio ready same several share short shortest shown single slow slower small smallest some spare spreads steady
    still sure tall than the thin tiny to together too top twice uneven unknown unusual usual varying warm whole
    wide widest with without worth yes
""")
"""Words that do not say what a constant is of."""


@functools.cache
def modules() -> dict[str, tuple[str, ast.Module]]:
    """Text and syntax tree of each module, by path."""
    files = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
    return {name: (path.read_text("utf-8"), house.tree(path)) for name, path in files.items()}


def classes() -> list[str]:
    trees = (tree for _, tree in modules().values())
    return [node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def constants() -> Iterator[str]:
    for node in (node for _, tree in modules().values() for node in tree.body):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (each.id for each in targets if isinstance(each, ast.Name) and each.id.isupper())


def bare() -> set[str]:
    return {name for name in constants() if NO_NOUNS.issuperset(re.findall("[a-z0-9]+", name.lower()))}


def short() -> set[str]:
    lines = {path: text.count("\n") for path, (text, _) in modules().items()}
    # An analysis is a module, however little it needs.
    named = (
        each for each in lines if Path(each).stem not in ("__init__", "__main__") and Path(each).parts[0] != "analyses"
    )
    return {path for path in named if lines[path] < SHORTEST_MODULE_LINES}


def held() -> dict[str, float]:
    """The table of counts in CONTRIBUTING."""
    rows = re.findall(r"^\| (.+?) \| ([0-9.]+) \|$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)
    return {name: float(count) for name, count in rows}


def test_no_two_classes_share_a_name() -> None:
    assert {name for name, count in Counter(classes()).items() if count > 1} == SHARED_CLASS_NAMES


def test_a_constant_says_what_it_is_of() -> None:
    assert bare() == BARE_CONSTANTS


def test_a_module_is_worth_opening() -> None:
    assert short() == SHORT_MODULES


@pytest.mark.parametrize("package", house.PACKAGES.values())
def test_no_folders_import_each_other(package: str) -> None:
    assert house.circles(house.graph(package)) == []


@pytest.mark.parametrize("name", counts.HELD)
def test_a_count_may_only_fall(name: str) -> None:
    assert counts.HELD[name](counts.modules()) <= held()[name], "`python tools/house.py` and `docs/house.py` say more"


def test_a_decision_is_a_page() -> None:
    pages = (ROOT / "docs" / "decisions").glob("0*.md")
    assert not [page.name for page in pages if len(page.read_text("utf-8").split()) > LONGEST_DECISION_WORDS]
