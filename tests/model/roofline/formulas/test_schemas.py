"""The arguments that formulas ask for are those that operators have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kinetoscope.model.roofline.formulas.arguments import Tensor, arguments_of
from kinetoscope.model.roofline.formulas.family import Family, NamedFormula, asked
from kinetoscope.model.roofline.formulas.registry import ENTRIES
from kinetoscope.model.roofline.formulas.schemas import places, schema, schemas
from tests.model.roofline.formulas.costs import cost_of

FORMULAS = {name: entry.formula for name, entry in ENTRIES.items() if isinstance(entry.formula, NamedFormula)}


def names_of(formula: NamedFormula) -> Iterator[str]:
    """Arguments that an operator has, also by the names that its formula has for them."""
    for overload in formula.overloads:
        yield from overload.places
    for mine, theirs in formula.names.items():
        if any(each in overload.places for each in theirs.split() for overload in formula.overloads):
            yield mine


@pytest.mark.parametrize("name", [name for name, formula in FORMULAS.items() if formula.is_by_name])
def test_an_operator_has_the_arguments_that_its_formula_must_have(name: str) -> None:
    formula = FORMULAS[name]
    required = {each for each, (_, is_required) in asked(formula.function).items() if is_required}
    assert required - formula.constants.keys() <= set(names_of(formula))


def test_each_argument_that_a_formula_asks_for_is_one_of_an_operator() -> None:
    known: dict[object, set[str]] = {}
    for formula in FORMULAS.values():
        known.setdefault(formula.function, set()).update(names_of(formula))
    for formula in FORMULAS.values():
        named = {name for name, (kind, _) in asked(formula.function).items() if kind != "Arguments"}
        listed = [str(formula.constants.get(each, "")) for each in ("written", "read")]
        assert named - formula.constants.keys() <= known[formula.function], formula.operator
        assert set(" ".join(listed).split()) <= set(names_of(formula)), formula.operator


@pytest.mark.parametrize(
    ("dims", "types", "typed"),
    [
        ([[2, 3], [3, 4]], ["float", "float"], False),
        ([[2, 3], [3, 4], []], ["float", "float", "Scalar"], True),  # (input, mat2, out_dtype)
        ([[2, 3], [3, 4], [2, 4]], ["float"] * 3, False),  # (input, mat2, out)
        ([[2, 3], [3, 4], [], [2, 4]], ["float", "float", "Scalar", "float"], True),
    ],
)
def test_an_overload_is_told_by_number_and_kind_of_the_arguments(
    dims: list[list[int]], types: list[str], typed: bool
) -> None:
    assert ("out_dtype" in places(schemas("aten::mm"), arguments_of(dims, types))) == typed


def test_a_schema_of_an_older_torch_is_told_by_what_lacks() -> None:
    product = [[16, 32], [32, 8]]
    now = cost_of("aten::_scaled_mm", [*product, [16, 1], [1, 8], "", "", "", ""], {6: "15"})
    before = cost_of("aten::_scaled_mm", [*product, "", "", [16, 1], [1, 8], "", ""], {3: "15"})
    assert now is not None
    assert now == before


def test_a_formula_is_a_function_with_the_names_of_the_schema() -> None:
    formula = Family("Mine")

    @formula("mine::scaled", "Tensor input, factor, Tensor? bias")
    def scaled(input: Tensor, factor: int, bias: Tensor | None) -> None:  # noqa: A002
        seen.append((input.shape, factor, bias))

    seen: list[object] = []
    call = arguments_of([[2], [], []], ["float", "Scalar", ""], concrete=["", "3", ""])
    compute = formula.entries["mine::scaled"].formula
    assert compute(call) is None
    assert compute(replace(call, concrete=())) is None  # the factor was not recorded
    assert compute(replace(call, values=())) is None
    assert seen == [((2,), 3, None)]
    assert schema("Tensor input, factor, Tensor? bias").places == {"input": 0, "factor": 1, "bias": 2}


OLDER = {
    "_cat", *(f"{library}_convolution{kind}_backward_{operand}" for library in ("cudnn", "miopen")
              for kind in ("", "_transpose") for operand in ("input", "weight")),
    "miopen_depthwise_convolution_backward_input", "miopen_depthwise_convolution_backward_weight",
    "mkldnn_convolution_backward_input", "mkldnn_convolution_backward_weights",
}  # fmt: skip
"""Operators that releases of torch before the installed one had."""


@pytest.mark.torch
def test_each_operator_of_torch_is_one_that_torch_has() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
    declared = {each.name for each in torch._C._jit_get_all_schemas()}
    of_torch = {name for name in ENTRIES if name.startswith("aten::")}
    assert {name.removeprefix("aten::") for name in of_torch - declared} <= OLDER


@pytest.mark.torch
def test_the_table_is_what_torch_declares() -> None:
    pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
    from kinetoscope.model.roofline.formulas.schemas import TABLE
    from tools.schemas import table

    assert TABLE.read_text("utf-8") == table()
