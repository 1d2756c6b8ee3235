"""Programs with which nothing is wrong: no single change that a rule knows would make a step three percent shorter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.faults.case import Draw, Healthy, drawing
from tests.faults.host import Body
from tests.faults.network import Network
from tests.faults.program import Program
from tests.simulator import Model, simulate

_A100: Final[dict[str, Any]] = {"device": "NVIDIA A100-SXM4-40GB", "capability": (8, 0), "memory": 40e9}
_V100: Final[dict[str, Any]] = {"device": "Tesla V100-SXM2-16GB", "capability": (7, 0), "memory": 16e9}
_MI300: Final[dict[str, Any]] = {"device": "AMD Instinct MI300X", "capability": (9, 4), "memory": 192e9}

Layers = Callable[[Network], None]


def training(
    layers: Layers,
    *,
    precision: str = "bf16",
    batch: float = 4e6,
    loads: float = 4000,
    workers: int = 4,
    parameters: float = 1e8,
    tensors: int = 100,
    host: float = 1.0,
) -> Body:
    """A training step: a batch from workers, copied while the device works, forward, backward, optimizer."""

    def body(p: Program, n: int) -> None:
        net = Network(p, precision, host)
        if loads:
            p.loader(loads, workers=workers)
        if p.device and batch:
            p.to_device(batch, pinned=True, blocking=False)
        layers(net)
        net.backward()
        net.optimizer(parameters, tensors)

    return body


def inference(layers: Layers, *, precision: str = "bf16", batch: float = 1e6) -> Body:
    """A forward pass, whose answers are fetched at its end."""

    def body(p: Program, n: int) -> None:
        net = Network(p, precision, training=False)
        p.loader(1500, workers=4)
        if p.device:
            p.to_device(batch, pinned=True, blocking=False)
        layers(net)

    return body


def transformer(net: Network, *, layers: int = 12, batch: int = 8, length: int = 1024, width: int = 1024) -> None:
    """Blocks of a language model, with its embedding and its head."""
    rows = batch * length
    net.pointwise("aten::embedding", rows, width, what="indexSelectLargeIndex")
    for _ in range(layers):
        net.block(batch, length, width, width // 64)
    net.norm(rows, width)
    net.linear(rows, width, 32_000)


def resnet(net: Network, *, batch: int = 256, blocks: int = 12) -> None:
    """Bottlenecks of a convolutional network."""
    net.conv(batch, 8, 224, 64, 7, 2)
    for k in range(blocks):
        stage = 4 * k // blocks
        net.residual(batch, 256 << stage, 56 >> stage, 64 << stage)
    net.linear(batch, 2048, 1000)


def recommender(net: Network) -> None:
    """Embeddings and two towers of a recommender."""
    for _ in range(12):
        net.pointwise("aten::embedding_bag", 65536, 128, what="EmbeddingBag_updateOutputKernel_sum_mean")
    for _ in range(3):
        net.linear(65536, 1024, 1024)
        net.pointwise("aten::relu", 65536, 1024)
    for _ in range(4):
        net.linear(65536, 2048, 2048)
        net.pointwise("aten::relu", 65536, 2048)


def perceptron(net: Network, *, rows: int = 512, width: int = 1024) -> None:
    """A network that a CPU can train."""
    for _ in range(4):
        net.linear(rows, width, width)
        net.pointwise("aten::relu", rows, width)


def decoding(p: Program, n: int) -> None:
    """A token of a language model: one graph, whose token the host fetches while the next graph is launched."""
    p.host(150)
    p.to_device(4096, pinned=True, blocking=False, dtype="long int")
    kernels = [("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x128x64_cublas", 60.0), ("flash_fwd_splitkv", 25.0)]
    p.graph_launch(kernels * 80)


def compiled(p: Program, n: int) -> None:
    """A compiled training step: few large Triton kernels and products."""
    p.loader(3000, workers=4)
    p.to_device(2e6, pinned=True, blocking=False)
    net = Network(p)
    with p.annotation("Torch-Compiled Region: 0/0"), p.annotation("## Call CompiledFxGraph fabc ##"):
        for _ in range(24):
            with p.op("triton_poi_fused_add_gelu_native_layer_norm_3", 5):
                p.kernel("triton_poi_fused_add_gelu_native_layer_norm_3", 110, launch="cuLaunchKernel")
            net.linear(8192, 1024, 4096)
    net.backward()
    net.optimizer(1e8)


def on_a_shared_machine(p: Program, n: int) -> None:
    """Short steps on a host whose core other processes use, with a little Python after each."""
    net = Network(p, "fp32")
    perceptron(net, rows=32, width=512)
    net.backward()
    net.optimizer(1e6, 8)
    p.host(250)


def overlapped(p: Program, n: int) -> None:
    """Data parallel: the gradients of each layer are reduced while those of the layer before are computed."""
    p.loader(3000, workers=4)
    p.to_device(2e6, pinned=True, blocking=False)
    net = Network(p)
    transformer(net, layers=8)
    with p.backward():
        for place, layer in enumerate(reversed(net._tape)):
            layer()
            if place % 12 == 11:
                all_reduce(p, 25e6, 300)
    net._tape.clear()
    p.event_wait(7, 17)
    net.optimizer(1e8)


def all_reduce(p: Program, count: float, us: float) -> None:
    """A bucket of gradients on the stream of the collectives, behind what was computed so far."""
    args: dict[str, Any] = {
        "Collective name": "allreduce", "In msg nelems": int(count), "Out msg nelems": int(count), "Group size": 8,
        "dtype": "BFloat16", "Process Group Name": "0", "Process Group Description": "default_pg",
        "Process Group Ranks": str(list(range(8))),
    }  # fmt: skip
    p.event_wait(17, 7)
    with p.op("c10d::allreduce_", 8), p.op("record_param_comms", 8, **args), p.annotation("nccl:all_reduce"):
        name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        p.kernel(name, us, stream=17, grid=(24, 1, 1), block=(512, 1, 1), launch="cudaLaunchKernelExC", **args)


def logging(p: Program, n: int) -> None:
    """A large step whose loss is printed each tenth time."""
    training(transformer)(p, n)
    if n % 10 == 9:
        p.item()
        p.host(200)


def uneven(p: Program, n: int) -> None:
    """Sentences of all lengths: steps differ by their work."""
    length = 256 * (2 + p.random.randrange(6))
    p.loader(3000, workers=4)
    p.to_device(1e6, pinned=True, blocking=False)
    net = Network(p)
    transformer(net, length=length)
    net.backward()
    net.optimizer(1e8)


def accumulating(p: Program, n: int) -> None:
    """Four small batches a step."""
    net = Network(p)
    for _ in range(4):
        p.loader(2000, workers=4)
        p.to_device(1e6, pinned=True, blocking=False)
        transformer(net, layers=6, batch=4)
        net.backward()
    net.optimizer(1e8)


def with_memory(p: Program, n: int) -> None:
    """Activations are allocated and freed; the level stays."""
    p.loader(3000, workers=4)
    p.to_device(1e6, pinned=True, blocking=False)
    net, held = Network(p), []
    for _ in range(12):
        held.append(p.malloc(300e6))
        net.block(8, 1024, 1024, 16)
    net.backward()
    for address in reversed(held):
        p.free(address)
    net.optimizer(1e8)


def recurrent(p: Program, n: int) -> None:
    """cuDNN's LSTM: one call, many kernels."""
    p.loader(3000, workers=2)
    p.to_device(4e6, pinned=True, blocking=False)
    net = Network(p, "fp16")
    with p.op("aten::_cudnn_rnn", 40, grad="CudnnRnnBackward0"):
        for _ in range(60):
            p.kernel("sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_cublas", 150)
            p.kernel("void LSTM_elementWise_fp<__half, __half, float>(int, int, int)", 40)
    with p.backward(), p.grad("CudnnRnnBackward0"), p.op("aten::_cudnn_rnn_backward", 40):
        for _ in range(60):
            p.kernel("sm90_xmma_gemm_f16f16_f16f32_f32_nt_n_tilesize128x128x64_cublas", 300)
            p.kernel("void LSTM_elementWise_bp1<__half, __half, float>(int, int, int)", 60)
    net.optimizer(5e7)


def scaled(p: Program, n: int) -> None:
    """Half precision with a gradient scaler, which looks at one value before each large step of the optimizer."""
    p.loader(3000, workers=4)
    p.to_device(8e6, pinned=True, blocking=False)
    net = Network(p, "fp16")
    resnet(net, batch=384)
    net.backward()
    with p.op("aten::_amp_foreach_non_finite_check_and_unscale_", 30):
        p.kernel("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<NonFiniteCheck>", 60)
    p.item()
    net.optimizer(3e7)


def at_the_end(p: Program, n: int) -> None:
    """A large step at whose end the loss is looked at."""
    training(_wide)(p, n)
    p.item()
    p.host(50)


def saving(p: Program, n: int) -> None:
    """A checkpoint after fifty steps."""
    training(transformer)(p, n)
    if n == 50:
        p.host(9000)


def bursts(p: Program, n: int) -> None:
    """Workers that have enough in store, though some batches take long."""
    p.loader(9000 if p.random.random() < 0.95 else 30e3, workers=6)
    p.to_device(2e6, pinned=True, blocking=False)
    net = Network(p)
    transformer(net)
    net.backward()
    net.optimizer(1e8)


def partly_exact(net: Network) -> None:
    """A loss in full precision behind a network in half precision."""
    transformer(net)
    exact = Network(net.p, "fp32", training=False)
    exact.linear(8192, 64, 64)
    exact.pointwise("aten::_log_softmax", 8192, 512)


def settling(p: Program, n: int) -> None:
    """The optimizer's state is made in the first step; then the level stays."""
    p.loader(3000, workers=4)
    p.to_device(1e6, pinned=True, blocking=False)
    net = Network(p)
    transformer(net, layers=8)
    net.backward()
    if n == -1:
        for _ in range(20):
            p.malloc(40e6)
    net.optimizer(1e8)


def captured(p: Program, n: int) -> None:
    """A training step that is one graph, with a batch copied before it."""
    p.loader(3000, workers=4)
    p.to_device(1e6, pinned=True, blocking=False)
    p.graph_launch([("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas", 45.0)] * 200)


def jobs(**model: Any) -> Draw:
    """A job of several ranks of the simulator of jobs."""

    def draw(folder: Path) -> float:
        simulate(Model(**model), folder)
        return 0.0

    return draw


def _wide(net: Network) -> None:
    transformer(net, layers=6, batch=16, length=2048, width=2048)


def _encoder(net: Network) -> None:
    transformer(net, layers=24, batch=32, length=512)


def _perceptron(net: Network) -> None:
    perceptron(net, rows=2048)


def _even(net: Network) -> None:
    transformer(net, batch=6)


def _alone(net: Network) -> None:
    resnet(net, batch=128, blocks=16)


def _beside(seed: int) -> Draw:
    """With some seeds the core is lost three times, evenly apart, as if the loop did something each so-manieth step."""
    return drawing(on_a_shared_machine, seed=seed, steps=20, preempted=100, device=None)


HEALTHY: Final = (
    Healthy("language model, H100, bf16", drawing(training(transformer), seed=101)),
    Healthy("wide language model, H100, bf16, 3 steps", drawing(training(_wide), seed=102, steps=3)),
    Healthy("language model, A100, bf16, 100 steps", drawing(training(transformer), seed=103, steps=60, **_A100)),
    Healthy("language model, jitter of 10 %", drawing(training(transformer), seed=104, noise=0.1)),
    Healthy("language model with Python stacks", drawing(training(transformer), seed=105, stacks=True, steps=8)),
    Healthy("language model without shapes", drawing(training(transformer), seed=106, shapes=False)),
    Healthy("language model, waits recorded", drawing(training(transformer), seed=107, sync_events=True)),
    Healthy("language model, MI300X", drawing(training(transformer), seed=108, **_MI300)),
    Healthy("residual network, AMP, channels last", drawing(training(resnet, precision="fp16"), seed=109)),
    Healthy("residual network, A100, TF32", drawing(training(resnet, precision="tf32"), seed=110, steps=8, **_A100)),
    Healthy("residual network, V100, AMP", drawing(training(_alone, precision="fp16"), seed=111, steps=8, **_V100)),
    Healthy("recommender, bf16", drawing(training(recommender), seed=112)),
    Healthy("encoder, inference", drawing(inference(_encoder), seed=113)),
    Healthy("residual network, inference", drawing(inference(resnet, precision="fp16"), seed=114)),
    Healthy("decoding with graphs", drawing(decoding, seed=115)),
    Healthy("compiled training", drawing(compiled, seed=116)),
    Healthy("data parallel, overlapped", drawing(overlapped, seed=117)),
    Healthy("data parallel, overlapped, waits recorded", drawing(overlapped, seed=118, sync_events=True)),
    Healthy("loss printed each tenth step", drawing(logging, seed=119, steps=30)),
    Healthy("uneven sentences", drawing(uneven, seed=120, steps=30)),
    Healthy("gradient accumulation", drawing(accumulating, seed=121, steps=10)),
    Healthy("memory recorded, level", drawing(with_memory, seed=122, allocated=40e9, reserved=52e9)),
    Healthy("recurrent network, fp16", drawing(recurrent, seed=123)),
    Healthy("CPU training, workers", drawing(training(_perceptron, precision="fp32"), seed=124, device=None)),
    Healthy("CPU training, in memory", drawing(training(perceptron, precision="fp32", loads=0), seed=125, device=None)),
    Healthy("CPU inference", drawing(inference(_perceptron, precision="fp32"), seed=126, device=None)),
    Healthy("gradient scaler", drawing(scaled, seed=130, steps=12)),
    Healthy("loss looked at after each large step", drawing(at_the_end, seed=131, steps=6)),
    Healthy("a checkpoint in sixty steps", drawing(saving, seed=132, steps=60)),
    Healthy("some batches take long", drawing(bursts, seed=133, steps=30, warm=8)),
    Healthy("a loss in full precision", drawing(training(partly_exact), seed=134)),
    Healthy("optimizer state made at first", drawing(settling, seed=135, allocated=30e9, reserved=34e9)),
    Healthy("training in one graph", drawing(captured, seed=136)),
    Healthy("steps without marks", drawing(training(_even), seed=137, marks=False, steps=12)),
    Healthy("two steps", drawing(training(_even), seed=138, steps=2)),
    Healthy("slow host that keeps up", drawing(training(_wide, host=3), seed=139, steps=6, launch_us=12)),
    Healthy("encoder, A100, jitter of 15 %", drawing(inference(_encoder), seed=140, noise=0.15, steps=10, **_A100)),
    Healthy("CPU training, jitter of 10 %", drawing(training(_perceptron, precision="fp32"), noise=0.1, device=None)),
    Healthy("CPU training beside other processes", _beside(81)),
    Healthy("CPU training beside other processes, again", _beside(480)),
    Healthy("job of 4 ranks", jobs(seed=127, ranks=4, steps=6, elements=1_000_000, synchronizes=False)),
    Healthy(
        "job of 8 ranks, torch of 2026",
        jobs(seed=128, ranks=8, steps=6, elements=1_000_000, synchronizes=False, dialect="2026"),
    ),
)
