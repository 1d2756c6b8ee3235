"""Layers of one class are one node of a picture."""

from __future__ import annotations

from kinetoscope.pages.pictures.layers import class_of_module, joined


def test_numbered_modules_are_together_with_what_is_in_them() -> None:
    layers = [(("Model_0", f"Layer_{n}"), 100 + n, 1) for n in range(3)]
    linear = [(("Model_0", f"Layer_{n}", f"Linear_{2 * n + m}"), 20, 4) for n in range(3) for m in (0, 1)]
    tree = joined([(("Model_0",), 400, 1), *layers, *linear, (("Model_0", "step_2"), 7, 1)], class_of_module())
    seen = {
        tuple(path): (len(node.paths), node.name(path[-1], len(node.paths)), node.time, node.words())
        for path, node in tree.items()
    }
    assert seen == {
        ("Model",): (1, "Model_0", 400, "1 call"),
        ("Model", "Layer"): (3, "Layer", 303, "3 calls, 101\u00a0ns each"),
        ("Model", "Layer", "Linear"): (6, "Linear", 120, "24 calls, 20.0\u00a0ns each"),
        ("Model", "step"): (1, "step_2", 7, "1 call"),
    }


def test_only_names_with_the_prefix_are_joined() -> None:
    names = ["nn.Module: A_0", "nn.Module: A_1", "f_1", "f_2"]
    tree = joined([((name,), 1, 1) for name in names], class_of_module("nn.Module: "))
    assert sorted(tree) == [("f_1",), ("f_2",), ("nn.Module: A",)]
