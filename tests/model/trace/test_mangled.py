"""Mangled names of kernels in words: the expected texts are those of `c++filt`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import kernels
from kinetoscope.model.trace.mangled import demangled
from tests import drawn

AITER = "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64ELi8ELb0ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib"
CLAMP = (
    "_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_10gpu_kernelIZZZNS0_12_GLOBAL__N_112launch_clampERNS_18Tensor"
    "IteratorBaseEdiENKUlvE_clEvENKUlvE_clEvEUlfE0_EEvS5_RKT_EUlfE_St5arrayIPcLm3EEEEviT0_T1_"
)
IN_CLAMP = (
    "at::native::(anonymous namespace)::launch_clamp(at::TensorIteratorBase&, double, int)::{lambda()#1}::operator()() "
    "const::{lambda()#1}::operator()() const::{lambda(float)#2}"
)
LAMBDA = f"at::native::gpu_kernel<{IN_CLAMP}>(at::TensorIteratorBase&, {IN_CLAMP} const&)::{{lambda(float)#1}}"

DOUBLED = [f"S{digit}_" for digit in "02468ACEGIKMOQSUWY"]
"""Each stands for the type before: `a<a<…>, a<…>>`, twice as long each time."""

KNOWN = {
    AITER: "void aiter::add_rmsnorm_quant_kernel<std::bfloat16_t, std::bfloat16_t, 64, 8, false, false, true, 1>("
    "std::bfloat16_t*, std::bfloat16_t*, float*, std::bfloat16_t*, std::bfloat16_t*, std::bfloat16_t*, double, int, "
    "int, int, int, int, int, int, bool)",
    CLAMP: f"void at::native::vectorized_elementwise_kernel<4, {LAMBDA}, std::array<char*, 3ul> >"
    f"(int, {LAMBDA}, std::array<char*, 3ul>)",
    "_Z4gemmPKfS0_Pfi": "gemm(float const*, float const*, float*, int)",
    "_Z4gemmv.kd": "gemm() [clone .kd]",
    "_ZN2at6native2fpIXadL_ZNS0_6targetEiEEEEvv": "void at::native::fp<&at::native::target>()",
    "_ZN1a2enILNS_1EE1ERA3_iEEvOT0_": "void a::en<(a::E)1, int (&) [3]>(int (&) [3])",
    "_Z1fILin4ELj3ELb1EEvPFiicES1_": "void f<-4, 3u, true>(int (*)(int, char), int (*)(int, char))",
    "_ZNK1a3MemImE1mEv": "a::Mem<unsigned long>::m() const",
    "_Z8variadicIiJifEEvT_DpT0_": "void variadic<int, int, float>(int, int, float)",
    # The list of parameters is beyond the grammar; the name is not.
    "_Z9variadic2IiJifEEvT_DpPT0_": "void variadic2<int, int, float>",
}


@pytest.mark.parametrize(("name", "text"), KNOWN.items(), ids=[name[:24] for name in KNOWN])
def test_a_name_is_what_was_declared(name: str, text: str) -> None:
    assert demangled(name) == text


@pytest.mark.parametrize(
    "name",
    [
        *("gemm", "_Z", "_Zebra", "_ZTV3abc", "_Z1fIXsr3std1iEEvv", "_Z99f", "_Z1fv!", "_Z1fS_", "_Z1fT_"),
        *(
            "_Z1f" + "P" * 8_000 + "i",
            "_Z1fI" + "N1aI" * 2_000,
            "_Z1fv." + "a." * 3_000 + "!",
            "_Z1f1aIiiE" + "".join(f"1aI{part}{part}E" for part in DOUBLED),
        ),
    ],
    ids=lambda name: name[:12],
)
def test_what_is_beyond_the_grammar_or_the_bounds_stays(name: str) -> None:
    assert demangled(name) == name


@given(st.sampled_from(sorted(KNOWN)), st.data())
def test_a_broken_name_is_no_error(name: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(2, len(name) - 1))
    assert len(demangled(name[:place] + data.draw(st.sampled_from("NESITPKLJZX01_iv")) + name[place:])) < 70_000
    assert demangled(name[:place])


def test_kernels_are_named_when_a_trace_is_read(tmp_path: Path) -> None:
    """Two that the text does not tell apart keep their names: here, overloads by what only the parameters say."""
    names = [AITER, "_Z1gIiJifEEvT_DpPT0_", "_Z1gIiJifEEvT_DpRT0_", "gemm"]
    work = [drawn.kernel(name, 10 * place, 5 + place, place) for place, name in enumerate(names)]
    job = drawn.job(tmp_path, *work)
    assert sorted(kernels(job).frame["name"].to_list()) == sorted([KNOWN[AITER], *names[1:]])
    assert [event["name"] for event in job.trace().events()] == names  # as the file has them
