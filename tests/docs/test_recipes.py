"""The recipes of frameworks are followed: the programs on a page are recorded by its own commands."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from pathlib import Path

import pytest

from tests.docs.test_guides import ROOT, agrees, blocks, commands
from tests.record.processes import environment, run

pytestmark = pytest.mark.torch

RECIPES = {"trainer": ("transformers", "accelerate"), "lightning": ("lightning",), "ray-train": ("ray",)}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_leads_to_a_first_sentence(name: str, tmp_path: Path) -> None:
    for package in ("torch", *RECIPES[name]):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    given = environment(CUDA_VISIBLE_DEVICES="", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1", COLUMNS="100")
    sentences = []
    for language, text in blocks(ROOT / "docs/recipes" / f"{name}.md"):
        if language == "python":
            head, _, program = text.partition("\n")
            (tmp_path / head.removeprefix("# file: ")).write_text(program)
            continue
        for command, said in commands(text):
            words = [sys.executable if word == "python" else word for word in shlex.split(command)]
            done = run([sys.executable, "-m", *words], cwd=tmp_path, env=given)
            assert done.returncode == 0, done.stderr[-3000:]
            printed = done.stdout if words[1] == "summary" else done.stderr
            assert agrees(said, printed.replace(f"{tmp_path}/", "")), printed[-3000:]
            sentences.append("A step takes" in printed)
    assert sentences == [False, True]
    whole = ["record", "--history", "-o", "runs/whole", "--", sys.executable, "train.py"]
    for words in (whole, ["history", "runs/whole"]):
        done = run([sys.executable, "-m", "kinetoscope", *words], cwd=tmp_path, env=given)
        assert done.returncode == 0, done.stderr[-3000:]
    assert " · ended" in done.stdout
