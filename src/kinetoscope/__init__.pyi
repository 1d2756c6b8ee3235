# Made by docs/generate.py from src/kinetoscope; do not edit.

from typing import Literal

from kinetoscope.advisor.advice import advise as advise
from kinetoscope.advisor.plan import plan as plan
from kinetoscope.analyses import ANALYSES as ANALYSES
from kinetoscope.compare.delivery import delivery as delivery
from kinetoscope.compare.diff.diff import diff as diff
from kinetoscope.compare.diff.memory import memory_diff as memory_diff
from kinetoscope.compare.gate.gate import gate as gate
from kinetoscope.compare.ledger.ledger import ledger as ledger
from kinetoscope.errors import KinetoscopeError as KinetoscopeError
from kinetoscope.extensions import extend as extend
from kinetoscope.integrations.notebook import view as view
from kinetoscope.model.critical_path.frames import critical_path_graph as critical_path_graph
from kinetoscope.model.job import Job as Job
from kinetoscope.model.job import Readable as Readable
from kinetoscope.model.steps.selection import ALL as ALL
from kinetoscope.model.steps.selection import Selection as Selection
from kinetoscope.model.tables.sql import sql as sql
from kinetoscope.model.trace.trace import Trace as Trace
from kinetoscope.outputs.convert import convert as convert
from kinetoscope.outputs.page import page as page
from kinetoscope.outputs.report import report as report
from kinetoscope.outputs.summary import summary as summary
from kinetoscope.reading import read as read
from kinetoscope.record.profile import profile as profile
from kinetoscope.record.ranges import range as range  # noqa: A004
from kinetoscope.record.trace_handler import trace_handler as trace_handler
from kinetoscope.schema import OverRanks as OverRanks
from kinetoscope.schema import Result as Result
from kinetoscope.trying.session import try_changes as try_changes

HOMES: dict[str, str]
__all__: list[str]
__version__: str

def annotations(
    job: Job | Readable,
    *,
    select: Selection = ...,
    by: Literal["launch", "stream"] = "launch",
    across_ranks: OverRanks = "each",
) -> Result: ...
def categories(
    job: Job | Readable,
    *,
    select: Selection = ...,
    by: Literal["all", "step"] = "all",
    across_ranks: OverRanks = "each",
) -> Result: ...
def collective_states(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def collectives(
    job: Job | Readable,
    *,
    select: Selection = ...,
    by: Literal["size", "kind", "rank", "call"] = "size",
) -> Result: ...
def compilations(
    job: Job | Readable,
    *,
    select: Selection = ...,
    across_ranks: OverRanks = "each",
) -> Result: ...
def compiled_kernels(
    job: Job | Readable,
    *,
    select: Selection = ...,
    group_by: Literal["kernel", "place", "source", "module"] = "kernel",
    across_ranks: OverRanks = "each",
) -> Result: ...
def counters(
    job: Job | Readable,
    *,
    select: Selection = ...,
    by: Literal["counter", "step", "kind", "step_kind", "operator", "kernel"] = "counter",
    across_ranks: OverRanks = "each",
) -> Result: ...
def critical_path(
    job: Job | Readable,
    *,
    select: Selection = ...,
    path: Literal["step", "run"] = "step",
    what_if: str = "",
    across_ranks: OverRanks = "each",
) -> Result: ...
def critical_path_events(
    job: Job | Readable,
    *,
    select: Selection = ...,
    path: Literal["step", "run"] = "step",
    group_by: Literal["name", "event"] = "name",
    across_ranks: OverRanks = "each",
) -> Result: ...
def device_utilization(
    job: Job | Readable,
    *,
    select: Selection = ...,
    across_ranks: OverRanks = "each",
) -> Result: ...
def device_utilization_series(
    job: Job | Readable,
    *,
    select: Selection = ...,
    bucket: int | None = None,
) -> Result: ...
def devices(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def flame(
    job: Job | Readable,
    *,
    select: Selection = ...,
    weight: Literal["auto", "device", "host"] = "auto",
    python: Literal["all", "modules", "none"] = "all",
    operators: bool = True,
    kernels: bool = True,
    backward: Literal["thread", "forward"] = "thread",
    across_ranks: OverRanks = "each",
) -> Result: ...
def flops(
    job: Job | Readable,
    *,
    select: Selection = ...,
    by: Literal["op", "module", "step"] = "op",
    across_ranks: OverRanks = "each",
) -> Result: ...
def fusion(
    job: Job | Readable,
    *,
    select: Selection = ...,
    across_ranks: OverRanks = "each",
) -> Result: ...
def graph_breaks(
    job: Job | Readable,
    *,
    select: Selection = ...,
    across_ranks: OverRanks = "each",
) -> Result: ...
def graph_nodes(
    job: Job | Readable,
    *,
    select: Selection = ...,
    template: int | None = None,
    across_ranks: OverRanks = "each",
) -> Result: ...
def graphs(
    job: Job | Readable,
    *,
    select: Selection = ...,
    across_ranks: OverRanks = "each",
) -> Result: ...
def hang(
    job: Job | Readable,
    *,
    select: Selection = ...,
    by: Literal["verdict", "call"] = "verdict",
) -> Result: ...
def hardware_counters(
    job: Job | Readable,
    *,
    select: Selection = ...,
    by: Literal["operator", "kernel"] = "operator",
    across_ranks: OverRanks = "each",
) -> Result: ...
def history_changes(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def history_lost(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def history_marks(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def history_phases(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def history_ranks(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def history_returns(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def history_spikes(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def history_steps(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def history_windows(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def idle_breakdown(
    job: Job | Readable,
    *,
    select: Selection = ...,
    by: Literal["device", "stream"] = "device",
    launch_latency: int = 30000,
    across_ranks: OverRanks = "each",
) -> Result: ...
def idle_gaps(
    job: Job | Readable,
    *,
    select: Selection = ...,
    by: Literal["device", "stream"] = "device",
    min_duration: int = 0,
    launch_latency: int = 30000,
) -> Result: ...
def kernel_kinds(
    job: Job | Readable,
    *,
    select: Selection = ...,
    across_ranks: OverRanks = "each",
) -> Result: ...
def kernel_sequences(
    job: Job | Readable,
    *,
    select: Selection = ...,
    operator: str | None = None,
    min_length: int = 1,
    across_ranks: OverRanks = "each",
) -> Result: ...
def kernel_spread(
    job: Job | Readable,
    *,
    select: Selection = ...,
    kernel: str = "",
    kernels: int = 10,
) -> Result: ...
def kernels(
    job: Job | Readable,
    *,
    select: Selection = ...,
    group_by: Literal["name", "launch", "annotation"] = "name",
    argument: str | None = None,
    copies: bool = False,
    across_ranks: OverRanks = "each",
) -> Result: ...
def launch_statistics(
    job: Job | Readable,
    *,
    select: Selection = ...,
    slow_call: int = 50000,
    long_delay: int = 100000,
    across_ranks: OverRanks = "each",
) -> Result: ...
def launches(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def memory_bandwidth(
    job: Job | Readable,
    *,
    select: Selection = ...,
    across_ranks: OverRanks = "each",
) -> Result: ...
def memory_bandwidth_series(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def memory_by_operator(
    job: Job | Readable,
    *,
    select: Selection = ...,
    across_ranks: OverRanks = "each",
) -> Result: ...
def memory_curve(
    job: Job | Readable,
    *,
    select: Selection = ...,
    points: int = 2000,
) -> Result: ...
def memory_events(
    job: Job | Readable,
    *,
    select: Selection = ...,
    largest: int = 10000,
) -> Result: ...
def memory_fragmentation(
    job: Job | Readable,
    *,
    select: Selection = ...,
    by: Literal["pool", "segment", "time"] = "pool",
    at: int | None = None,
    across_ranks: OverRanks = "each",
) -> Result: ...
def memory_growth(
    job: Job | Readable,
    *,
    select: Selection = ...,
    warmup: int = 1,
    across_ranks: OverRanks = "each",
) -> Result: ...
def memory_oom(
    job: Job | Readable,
    *,
    select: Selection = ...,
    error: str = "",
    across_ranks: OverRanks = "each",
) -> Result: ...
def memory_peak(
    job: Job | Readable,
    *,
    select: Selection = ...,
    at: int | None = None,
    group_by: Literal["call", "class", "shapes", "use", "module", "line", "stack"] = "call",
    across_ranks: OverRanks = "each",
) -> Result: ...
def memory_timeline(
    job: Job | Readable,
    *,
    select: Selection = ...,
    points: int = 240,
) -> Result: ...
def memory_what_if(
    job: Job | Readable,
    *,
    select: Selection = ...,
    conf: str = "",
    memory: int | None = None,
    scale: str = "",
    across_ranks: OverRanks = "each",
) -> Result: ...
def modules(
    job: Job | Readable,
    *,
    select: Selection = ...,
    across_ranks: OverRanks = "each",
) -> Result: ...
def operator_launch_delay(
    job: Job | Readable,
    *,
    select: Selection = ...,
    operators: str = "aten::",
    copies: bool = True,
    across_ranks: OverRanks = "each",
) -> Result: ...
def operator_stacks(
    job: Job | Readable,
    *,
    select: Selection = ...,
    operator: str = "",
    exact: bool = False,
    group_by: Literal["stack", "line"] = "stack",
    shapes: bool = False,
    backward: Literal["thread", "forward"] = "thread",
    across_ranks: OverRanks = "each",
) -> Result: ...
def operators(
    job: Job | Readable,
    *,
    select: Selection = ...,
    group_by: Literal["name", "shapes", "stack"] = "name",
    python: bool = False,
    runtime: Literal["separate", "include"] = "separate",
    across_ranks: OverRanks = "each",
) -> Result: ...
def other_devices(
    job: Job | Readable,
    *,
    select: Selection = ...,
    product: str = "",
    across_ranks: OverRanks = "each",
) -> Result: ...
def overlap(
    job: Job | Readable,
    *,
    select: Selection = ...,
    by: Literal["device", "group"] = "device",
    across_ranks: OverRanks = "each",
) -> Result: ...
def peaks(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def process_groups(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def queue_length(
    job: Job | Readable,
    *,
    select: Selection = ...,
    full_at: int = 1024,
    across_ranks: OverRanks = "each",
) -> Result: ...
def queue_length_series(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def rank_balance(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def recording_kinds(
    job: Job | Readable,
    *,
    select: Selection = ...,
    across_ranks: OverRanks = "each",
) -> Result: ...
def roofline(
    job: Job | Readable,
    *,
    select: Selection = ...,
    by: Literal["op", "kernel", "module", "category", "step"] = "op",
    across_ranks: OverRanks = "each",
) -> Result: ...
def serving_steps(
    job: Job | Readable,
    *,
    select: Selection = ...,
    across_ranks: OverRanks = "each",
) -> Result: ...
def serving_summary(
    job: Job | Readable,
    *,
    select: Selection = ...,
    across_ranks: OverRanks = "each",
) -> Result: ...
def step_breakdown(
    job: Job | Readable,
    *,
    select: Selection = ...,
    order: Literal["default", "plugin"] = "default",
    across_ranks: OverRanks = "each",
) -> Result: ...
def step_skew(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
def stragglers(
    job: Job | Readable,
    *,
    select: Selection = ...,
    by: Literal["rank", "step", "collective"] = "rank",
) -> Result: ...
def synchronizations(
    job: Job | Readable,
    *,
    select: Selection = ...,
    across_ranks: OverRanks = "each",
) -> Result: ...
def temporal_breakdown(
    job: Job | Readable,
    *,
    select: Selection = ...,
    across_ranks: OverRanks = "each",
) -> Result: ...
def throttling(
    job: Job | Readable,
    *,
    select: Selection = ...,
    across_ranks: OverRanks = "each",
) -> Result: ...
def trace_info(
    job: Job | Readable,
    *,
    select: Selection = ...,
) -> Result: ...
