"""Facts that vLLM and SGLang say of themselves: their version, where they write, how many steps they have taken."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from kinetoscope.errors import InputError
from kinetoscope.record.serving.client import TOKEN, ServerAnswer, ServerClient

EngineName = Literal["vLLM", "SGLang"]

_MAX_VERSION_LENGTH: Final = 40
_UNAUTHORIZED_STATUSES: Final = (401, 403)
_INFO_PATHS: Final = ("/server_info", "/get_server_info")
"""Where SGLang says how it runs: the second one in older versions."""

_STEPS_OF_VLLM: Final = re.compile(
    r"^(vllm:iteration_tokens_total_count(?:\{.*\})?) (\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*$", re.MULTILINE | re.IGNORECASE
)
"""The histogram of tokens a step has an entry for each step of each engine."""

_FOLDER_OF_VLLM: Final = re.compile(r"torch_profiler_dir['\"]?\s*[=:]\s*['\"]([^'\"]+)['\"]")


@dataclass(frozen=True, slots=True)
class ServingServer:
    """Facts that a server says of itself.

    Attributes:
        engine: vLLM or SGLang.
        version: its version; "" if it does not say.
        files: traces that it writes on this machine, at least.
        folder: where it writes them, if it says.
    """

    engine: EngineName
    version: str = ""
    files: int = 1
    folder: str = ""


def identified(client: ServerClient) -> ServingServer:
    """The server that answers.

    Raises:
        InputError: none does, or it is neither vLLM nor SGLang.
    """
    answers = {}
    for path in _INFO_PATHS:
        answer = answers[path] = _answered(client, path)
        facts = answer.facts
        if "tp_size" in facts:
            return ServingServer("SGLang", _version(facts), _files_of_sglang(facts))
        if match := _FOLDER_OF_VLLM.search(answer.text.replace('\\"', '"') if facts else ""):
            return ServingServer("vLLM", _version(_answered(client, "/version").facts), folder=match[1])
    answer = answers["/version"] = _answered(client, "/version")
    if "version" in answer.facts:
        return ServingServer("vLLM", _version(answer.facts))
    if any(each.status in _UNAUTHORIZED_STATUSES for each in answers.values()):
        raise InputError(f"{client.url}: the server asks for a key; {TOKEN} in the environment names it")
    said = ", ".join(f"{path} answers {_briefly(each)}" for path, each in answers.items())
    raise InputError(f"{client.url}: neither vLLM nor SGLang: {said}")


def _answered(client: ServerClient, path: str) -> ServerAnswer:
    answer = client.get(path)
    if not answer.status:
        raise InputError(f"{client.url}: no server answers: {answer.reason}")
    return answer


def _briefly(answer: ServerAnswer) -> str:
    if 300 <= answer.status < 400:
        return answer.reason
    return f"{answer.status}" if answer.status != 200 else "something else"


def _version(facts: Mapping[str, Any]) -> str:
    return str(facts.get("version", ""))[:_MAX_VERSION_LENGTH]


def _files_of_sglang(facts: Mapping[str, Any]) -> int:
    """One a rank: with attention that is parallel over data, the ranks of that are those of tensors."""
    replicas = 1 if facts.get("enable_dp_attention") else _count(facts, "dp_size")
    ranks = _count(facts, "tp_size") * _count(facts, "pp_size") * replicas
    return max(ranks // _count(facts, "nnodes"), 1)


def _count(facts: Mapping[str, Any], key: str) -> int:
    value = facts.get(key)
    return value if isinstance(value, int) and value > 0 else 1


# --- steps


def counts_of_vllm(answer: ServerAnswer) -> dict[str, float]:
    """The count of steps of each engine in an answer of /metrics; empty where it has none."""
    if answer.status != 200:
        return {}
    counts = {line[1]: float(line[2]) for line in _STEPS_OF_VLLM.finditer(answer.text)}
    return {series: count for series, count in counts.items() if math.isfinite(count)}


def new_steps(before: Mapping[str, float], now: Mapping[str, float]) -> int:
    """Steps since: of several engines the one that took most; below 0 where the server began to count anew."""
    return max((int(count - before.get(series, 0.0)) for series, count in now.items()), default=0)
