"""How a formula comes to be known: a function whose parameters are named as the arguments in torch's schema.

    formula = Family("Gathers, scatters, joins")

    @formula("aten::embedding")
    def embedding(weight: Tensor, indices: Tensor) -> Cost | None: ...

A parameter is fetched as its annotation says. Where a tensor or an integer was not recorded that must be there, the
cost is unknown, and the function is not called. A parameter that an operator's schema does not have is as if it was
not recorded, so operators whose schemas differ share a function. Constants are parameters with a default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Entry, Need
from kinetoscope.model.roofline.formulas.schemas import Overload, places, schema, schemas

_FETCHED: Final[dict[str, Callable[[Arguments, str], Any]]] = {
    "Arguments": lambda given, _: given,
    "Tensor": Arguments.tensor,
    "Tensor | None": Arguments.tensor,
    "Tensors": Arguments.tensors,
    "Shape": Arguments.integers,
    "int": Arguments.integer,
    "int | None": Arguments.integer,
    "bool": lambda given, name: given.flag(name) is True,
    "bool | None": Arguments.flag,
    "str": Arguments.text,
    "ElementType | None": Arguments.scalar_type,
}
"""What a parameter is given, by its annotation."""

_F = TypeVar("_F", bound=Callable[..., Cost | None])


class Asked(NamedTuple):
    """A parameter of a formula: its annotation, and whether the cost is unknown without it."""

    annotation: str
    is_required: bool


@cache
def asked(function: Callable[..., Cost | None]) -> dict[str, Asked]:
    """The parameters of a formula that are fetched from the arguments of a call, by name."""
    annotations = {name: str(each.annotation) for name, each in inspect.signature(function).parameters.items()
                   if each.default is each.empty}  # fmt: skip
    return {name: Asked(kind, kind in ("Tensor", "int")) for name, kind in annotations.items()}


@dataclass(frozen=True, slots=True)
class NamedFormula:
    """The formula of an operator: a function, with what it is given.

    Attributes:
        function: computes the cost.
        operator: whose schema tells the places of the arguments.
        arguments: a schema that torch does not have, of a library or of an older torch.
        names: of parameters what schemas call them, the first that one has.
        constants: parameters that do not depend on the call.
    """

    function: Callable[..., Cost | None]
    operator: str
    arguments: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """The first sentence of the function: what it counts."""
        return (inspect.getdoc(self.function) or "").partition("\n\n")[0].replace("\n", " ")

    @property
    def is_by_name(self) -> bool:
        """Does it ask for any argument by its name?"""
        return bool(self.constants) or any(kind != "Arguments" for kind, _ in asked(self.function).values())

    @property
    def overloads(self) -> tuple[Overload, ...]:
        """The schemas that a call may have."""
        return (*schemas(self.operator), *([schema(self.arguments)] if self.arguments else []))

    def __call__(self, given: Arguments) -> Cost | None:
        """The cost of a call, None where its arguments do not tell."""
        named = replace(given, places=self._renamed(places(self.overloads, given)))
        values = {}
        for name, (annotation, is_required) in asked(self.function).items():
            if name in self.constants:
                continue
            values[name] = _FETCHED[annotation](named, name)
            if is_required and values[name] is None:
                return None
        return self.function(**values, **self.constants)

    def _renamed(self, known: Mapping[str, int]) -> Mapping[str, int]:
        """The places also by the names of the parameters."""
        renamed = {
            mine: known[next(each for each in theirs.split() if each in known)]
            for mine, theirs in self.names.items()
            if not known.keys().isdisjoint(theirs.split())
        }
        return {**known, **renamed} if renamed else known


@dataclass(frozen=True)
class Family:
    """Operators whose formulas stand together, in a module of their own.

    Attributes:
        title: in the documentation.
        is_product: do they multiply matrices, see `Entry`?
        needs: what all of its formulas need besides the arguments.
        names: of parameters what schemas call them, for all of its formulas.
        entries: by name of the operator.
    """

    title: str
    is_product: bool = False
    needs: tuple[Need, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)

    def __call__(
        self,
        operators: str | Iterable[str],
        arguments: str = "",
        *,
        needs: tuple[Need, ...] = (),
        names: Mapping[str, str] | None = None,
        **constants: Any,
    ) -> Callable[[_F], _F]:
        """Registers a function as the formula of some operators; those without a library are torch's.

        Args:
            operators: names, in a text with spaces between them; `::Function` is a function of autograd in Python.
            arguments: their schema, where torch does not declare it, or declared it otherwise before.
            needs: what the formula needs, too.
            names: of parameters what schemas call them, one name or several with spaces between them.
            constants: parameters that do not depend on the call.
        """

        def register(function: _F) -> _F:
            for each in operators.split() if isinstance(operators, str) else operators:
                name = each.removeprefix("::") if "::" in each else f"aten::{each}"
                bound = NamedFormula(function, name, arguments, {**self.names, **(names or {})}, constants)
                self.entries[name] = Entry(bound, self.is_product, (*self.needs, *needs))
            return function

        return register
