"""The differences that we mean, by name: what the peer does, who is right, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Right = Literal["we", "both", "the peer"]


@dataclass(frozen=True)
class Difference:
    """A rule of a peer's that we do not share.

    Attributes:
        peer: whose rule.
        name: as comparisons call it.
        what: what the peer does, in a sentence or two, counted in the raw traces.
        right: who is; both, where it is a matter of definition.
        why: in a sentence.
    """

    peer: Literal["hta", "plugin", "tracelens"]
    name: str
    what: str
    right: Right
    why: str


DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference(
        "hta",
        "as many stragglers as asked for",
        "HTA names the two ranks that most often start the longest NCCL kernels last, however late: of the two ranks "
        "of `sampled_2rank`, which wait for the other 126, both.",
        "we",
        "a rank is a straggler if others wait for it; there may be none.",
    ),
    Difference(
        "plugin",
        "calls on the host are communication",
        "The plugin counts the time of the operator that starts a collective as part of it, beside that of the kernel: "
        "50 µs each in `ddp_oldstyle`.",
        "we",
        "while the host queues a collective the device computes, and no byte moves.",
    ),
    Difference(
        "plugin",
        "collectives that overlap count once",
        "Of collectives that run at the same time the plugin counts the time in which any does, 1.10 s in `cpu_only`, "
        "where the sum of their durations is 2.14 s.",
        "both",
        "ours are sums, as a table by collective has to be; how long there was communication is in `rank_balance`.",
    ),
    Difference(
        "plugin",
        "a rank alone does not wait",
        "Of one rank the plugin takes the whole of a collective for transfer, and none of it for waiting.",
        "we",
        "with the other ranks missing nobody knows which part was which; ours are empty then.",
    ),
    Difference(
        "hta",
        "unlinked work",
        "HTA leaves device work out whose launch was not recorded, where a trace has several steps: 614 of 15,632 "
        "pieces in `trace_diff/test`, 872 of 7,747 in `queue_length`, 16 of 18 and 16 of 17 in `trace_compare`.",
        "we",
        "the device ran it in the window; health says how much it is.",
    ),
    Difference(
        "hta",
        "waits as work",
        "HTA takes any event on a numbered stream for work of the device, also recorded waits (`cuda_sync`): 41 on two "
        "traces, one on two others, and 339 on MTIA, where waits for events and marks of them count as computation.",
        "we",
        "a wait is no work: with it a stream is busy because it is idle.",
    ),
    Difference(
        "hta",
        "kinds by pattern",
        "HTA tells the kind of work by the name alone: `pe_exe` of MTIA, which computes, is of a kind OTHER that its "
        "tables leave out, a name that begins with `dma` is a copy of unknown direction.",
        "we",
        "category, arguments and operator say what the name does not.",
    ),
    Difference(
        "hta",
        "negative durations",
        "Rounding starts up and ends down makes work of less than a microsecond end before it starts, and HTA adds its "
        "-1 us up: marks of events on MTIA sum to -198 us.",
        "we",
        "time is not negative; we keep nanoseconds.",
    ),
    Difference(
        "hta",
        "whole microseconds",
        "Also with its rounding off, HTA cuts each stretch of its table of kinds to whole microseconds: 104 of 110.9 "
        "us in 16 pieces of work on MI250, 72.5 of 73.4 ms on A100.",
        "we",
        "nanoseconds are in the file.",
    ),
    Difference(
        "hta",
        "statistics of sums",
        "With more than ten names of a kind HTA's default table gives the sum of each kernel as its mean, minimum and "
        "maximum, and statistics of those sums for `others`: on `trace_diff/control` one of 5 calls has a mean of "
        "30,284 us instead of 6,057 us.",
        "we",
        "the mean of a kernel is over its calls; asked for all names HTA agrees.",
    ),
    Difference(
        "hta",
        "marked steps only",
        "HTA lists no steps where the profiler marked none.",
        "both",
        "we propose steps that repeat, or take the window for one, and say so in the notes.",
    ),
    Difference(
        "hta",
        "gaps of no time",
        "HTA counts work that follows without a gap as an interval of idleness of 0 us.",
        "both",
        "idle times are equal; we count gaps in which something could have run.",
    ),
    Difference(
        "hta",
        "gaps after the work before",
        "HTA measures a gap from the end of the work that started before, also where that overlaps; after rounding, "
        "or on streams of MTIA, gaps become negative and shorten the others.",
        "we",
        "idle time is never negative: a gap begins at the greatest end so far.",
    ),
    Difference(
        "hta",
        "fixed list of launches",
        "HTA's launch statistics know `cudaLaunchKernel`, `cudaLaunchKernelExC`, two copies and MTIA's `runFunction`: "
        "none of 16 launches on MI250, 74 of 185 on MTIA, and no launch of a graph (70 in `queue_length`).",
        "we",
        "what carries the correlation id of device work launched it.",
    ),
    Difference(
        "hta",
        "launches with recorded work",
        "HTA leaves out calls whose work was not recorded: 3 of 3,777 on A100, all 104 where CUPTI replayed kernels.",
        "both",
        "their duration on the host is known; our columns of delay and work are null, and the notes count them.",
    ),
    Difference(
        "hta",
        "short kernels of fast calls",
        "HTA counts a kernel as short only if its call took 50 us at most: on `trace_diff/control` 3,674 of 3,704.",
        "both",
        "a short kernel is shorter than its call, however slow that was.",
    ),
    Difference(
        "hta",
        "kernel launches only",
        "HTA's sequences of an operator hold what calls named `LaunchKernel` or `runFunction` launched, no copies, "
        "sets or graphs.",
        "both",
        "we list all that the operator made the device do.",
    ),
    Difference(
        "hta",
        "latest operator of any thread",
        "HTA takes the operator that began last before a launch and ends after it, on any thread; of those that begin "
        "in the same microsecond the outermost.",
        "we",
        "a launch is made by the innermost operator on its own thread.",
    ),
    Difference(
        "hta",
        "listed calls only",
        "HTA's queues know twelve calls by name: without graphs, and without MTIA's copies.",
        "we",
        "whatever was launched waits in the queue.",
    ),
    Difference(
        "hta",
        "a point for each change",
        "HTA's series have a point for each single change, also for several at one time, in the order in which an "
        "unstable sort leaves them, and a copy of 0 us lasts 1 us.",
        "both",
        "what happens at one instant is one point of the curve; the curves are the same.",
    ),
    Difference(
        "hta",
        "statistics of points",
        "HTA's mean of a queue, or of a bandwidth, is over the points at which it changes, not over time, and points "
        "that only rounding makes positive count: copies from device to device in `trace_diff/test` come to 51 GB/s "
        "where 27.9 GB in 92.9 ms are 300 GB/s.",
        "we",
        "a mean over time is what the hardware did.",
    ),
    Difference(
        "hta",
        "one stream of a rank",
        "Of the time that queues are full, HTA keeps one stream of a rank: on `trace_diff/control` 40,958 us of stream "
        "22, and nothing of the 233,936 us of stream 7.",
        "we",
        "every stream has its row; those that HTA keeps are equal.",
    ),
    Difference(
        "hta",
        "stated bandwidths only",
        "HTA knows the bandwidths that the file states, and takes 0 for others: ROCm and MTIA state none.",
        "we",
        "bytes and durations are recorded there, too.",
    ),
    Difference(
        "hta",
        "a name for each step",
        "HTA has a row for each `ProfilerStep#N`.",
        "both",
        "`step_breakdown` has a row for each step; as a range they are one name.",
    ),
    Difference(
        "hta",
        "ranges in ranges of their name",
        "HTA adds up ranges that lie directly in a range of their name: 31.3 s of 15.7 s in `critical_path/alexnet`.",
        "both",
        "ours are one range, and a total is at most the time that there was.",
    ),
    Difference(
        "hta",
        "no annotation for kernels of no time",
        "With pandas 3 HTA gives kernels that its rounding leaves no time to no annotation: 733 of 900 in "
        "`DistributedDataParallel.forward` are left.",
        "we",
        "the raw trace has 900, and so has HTA with pandas 2.",
    ),
    Difference(
        "hta",
        "no time between calls",
        "HTA's critical path gives no time to what lies between outermost calls of a thread, nor to the end of a call "
        "that waits; it leaves out calls of no duration and all but the last kernel of a graph. Built that way, our "
        "graph has as many nodes and (but for one) links as HTA's, and its path the same length.",
        "we",
        "a path that explains a step is as long as the step: 76.8 ms of `trace_diff/control`, not 40.3.",
    ),
    Difference(
        "hta",
        "a path that is not the longest",
        "On MTIA HTA's path has 29.1 ms; the calls of a single thread alone have 248.8 ms.",
        "we",
        "the longest path is at least as long as any chain of calls.",
    ),
    Difference(
        "plugin",
        "overloads are operators",
        "Newer files name overloads (`aten::div.Tensor`). The plugin has a row for each, and counts a call of one "
        "inside another twice (`aten::div` of `conv`: 10 calls, and twice the memory).",
        "both",
        "torch's own tables count as we do.",
    ),
    Difference(
        "plugin",
        "newer convolutions are not eligible",
        "The plugin's list of operators that tensor cores can compute ends with those of 2021: it lacks "
        "`aten::convolution_backward`, `aten::mkldnn_convolution`, and all attention.",
        "we",
        "they are products like those in the list.",
    ),
    Difference(
        "plugin",
        "backward pass of modules only",
        "Where modules were recorded, the plugin loses calls of the backward pass whose forward pass was in no module, "
        "with all that is inside them: 5 of 145 `ViewBackward0` of `transformer`.",
        "we",
        "the file has them, and torch counts them.",
    ),
    Difference(
        "plugin",
        "annotations are no calls",
        "The plugin does not take time inside an annotation (`nccl:…`) off the operator around it.",
        "both",
        "annotations have rows of ours, so that self times add up.",
    ),
    Difference(
        "plugin",
        "calls in calls with memory only",
        "The plugin counts, beside the memory of an operator, only calls made by a call that touched memory: 105 of "
        "285 `aten::reshape`.",
        "we",
        "calls are calls.",
    ),
    Difference(
        "plugin",
        "self time without operators",
        "A module's own host time is without the operators that it calls, its own device time is with them; and the "
        "backward pass belongs to no module.",
        "both",
        "ours is with them on both sides, so that self columns compare; calls, operators and the times of the forward "
        "pass are equal.",
    ),
    Difference(
        "plugin",
        "of Lightning its ranges only",
        "For traces of PyTorch Lightning the plugin's tree shows nothing but Lightning's own ranges.",
        "we",
        "the operators were recorded.",
    ),
    Difference(
        "plugin",
        "means over no time are 0",
        "Means weighted by duration are 0 where all calls took 0 us: one or two launch configurations of each trace.",
        "we",
        "the file states blocks per multiprocessor and occupancy; we take their plain mean.",
    ),
    Difference(
        "plugin",
        "unknown matrix units are none",
        "A kernel whose name the plugin does not know uses no tensor cores.",
        "we",
        "what the name does not tell is unknown, and its share is told.",
    ),
    Difference(
        "plugin",
        "last bucket longer",
        "The plugin's last bucket reaches to the end of the recording, up to twice as far as the others.",
        "both",
        "buckets of one length compare; the others are equal.",
    ),
    Difference(
        "plugin",
        "records with an address only",
        "The plugin has no curve of memory for files without addresses.",
        "we",
        "sizes alone give the curve, from its beginning on.",
    ),
    Difference(
        "tracelens",
        "gradients are read twice",
        "TraceLens counts the gradient of a convolution's output for each of the two gradients that follow from it.",
        "both",
        "the two kernels of today's libraries read it twice; ours is what any implementation has to move, for a floor.",
    ),
    Difference(
        "tracelens",
        "windows cover everything",
        "TraceLens counts the whole input of a convolution of 1×1 with stride 2 as read: 4.0 instead of 1.0 MB.",
        "we",
        "three of four places are in no window, and need not be read.",
    ),
    Difference(
        "tracelens",
        "copies compute",
        "TraceLens counts an operation for each element that `copy_` copies.",
        "we",
        "nothing is computed; of a copy only bytes count.",
    ),
    Difference(
        "tracelens",
        "links are memory",
        "TraceLens takes a copy between host and device for one within the memory of the device, read and written: of "
        "8 MB to the host 16 MB, at 0.03 TB/s.",
        "we",
        "on the device it is one of the two, and the link to the host is what bounds it.",
    ),
    Difference(
        "tracelens",
        "expanded tensors in full",
        "TraceLens counts each element of an expanded tensor (stride 0) as read: 31.9 instead of 21.2 MB of a product "
        "with a row that is repeated 5,184 times.",
        "we",
        "the elements lie in one place of memory; it need not be read more than once.",
    ),
    Difference(
        "tracelens",
        "results in place are promoted",
        "TraceLens takes the result of `add_` of a BFloat16 and an FP32 tensor for FP32.",
        "we",
        "the result of an operator in place has the type of the tensor that it is written to.",
    ),
    Difference(
        "tracelens",
        "numbers have four bytes",
        "TraceLens counts 4 bytes for the number that a tensor is divided by; we count 8 for the tensor of one element "
        "that torch makes of it.",
        "both",
        "a few bytes of half a million.",
    ),
    Difference(
        "tracelens",
        "all gradients",
        "TraceLens counts the gradients of input and weight of every convolution, 4.72 GFLOP of the first one of "
        "ResNet, whose input needs none.",
        "we",
        "the last argument of `convolution_backward` says which gradients are computed: one of the two.",
    ),
    Difference(
        "tracelens",
        "one result of a reduction",
        "TraceLens takes the result of every `sum` and `mean` for one element, also of a mean of each of 5,120 rows.",
        "we",
        "the argument `dim` was recorded.",
    ),
    Difference(
        "tracelens",
        "operations of a norm",
        "TraceLens counts 5 operations for each element of a layer or batch norm and 9 in the backward pass, and 6 for "
        "each channel.",
        "both",
        "how many there are depends on the algorithm (two passes or Welford's), and no norm is bound by them.",
    ),
    Difference(
        "tracelens",
        "statistics of channels",
        "TraceLens counts two FP32 statistics for each channel of every norm: of a layer norm of 5,185 rows for each "
        "of its 1,024 columns; of a backward pass no gradients of the weights.",
        "we",
        "a layer norm has statistics for each row; in the backward pass weights are read, and their gradients written. "
        "It is less than 0.2 % of the bytes of all but the smallest.",
    ),
)
