"""Stacks as torch gathers them: frames of C++, of the interpreter and of Python, innermost first."""

from __future__ import annotations

import functools

TORCH = "/opt/venv/lib/python3.12/site-packages/torch"
USER = "/home/user/project"

Frame = dict[str, object]
Stack = tuple[Frame, ...]


@functools.cache
def frame(name: str, filename: str = "??", line: int = 0) -> Frame:
    """One frame; the same frame is the same object, as in a file of torch."""
    return {"name": name, "filename": filename, "line": line}


def python(name: str, file: str, line: int) -> Frame:
    """A frame of Python: `torch/…` is of torch, other paths that are not absolute are the user's."""
    if file.startswith("torch/"):
        return frame(name, f"{TORCH}/{file[6:]}", line)
    return frame(name, file if file.startswith("/") else f"{USER}/{file}", line)


GATHER = (
    frame("torch::unwind::unwind()"),
    frame("torch::CapturedTraceback::gather(bool, bool, bool)"),
    frame("torch::cuda::(anonymous namespace)::gather_with_cpp()", "memory_snapshot.cpp"),
)
MALLOC = (
    frame(
        "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(unsigned long, CUstream_st*)",
        "CUDACachingAllocator.cpp",
    ),
    frame(
        "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::malloc(void**, signed char, unsigned long, "
        "CUstream_st*)",
        "",
    ),
    frame("c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)", ""),
)
FREE = (
    frame(
        "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::free(c10::CachingDeviceAllocator::"
        "DeviceBlock*)",
        "CUDACachingAllocator.cpp",
    ),
    frame("c10::cuda::CUDACachingAllocator::Native::local_raw_delete(void*)", ""),
    frame("c10::StorageImpl::~StorageImpl()", ""),
)
EMPTY_CACHE = (
    frame("c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::emptyCache()", ""),
    frame("THCPModule_emptyCache(_object*, _object*)"),
)
RELEASE = (
    frame("torch::autograd::generated::LinearBackward0::release_variables()"),
    frame("torch::autograd::deleteNode(torch::autograd::Node*)"),
)
"""The graph is dropped: its nodes go without having been run."""
ENGINE = (
    frame(
        "torch::autograd::Node::operator()(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)",
        "",
    ),
    frame(
        "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&, "
        "torch::autograd::Node*, torch::autograd::InputBuffer&, std::shared_ptr<torch::autograd::ReadyQueue> const&)"
    ),
    frame("torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)"),
    frame(
        "torch::autograd::Engine::thread_init(int, std::shared_ptr<torch::autograd::ReadyQueue> const&, bool)",
    ),
    frame(
        "torch::autograd::python::PythonEngine::thread_init(int, std::shared_ptr<torch::autograd::ReadyQueue> const&, "
        "bool)",
        "",
    ),
    frame("pthread_condattr_setpshared"),
    frame("__clone"),
)
EVALUATE = frame("_PyEval_EvalFrameDefault")
START = (frame("Py_RunMain"), frame("Py_BytesMain"), frame("__libc_start_main"), frame("_start"))


@functools.cache
def operator(name: str) -> Stack:
    """The frames of an operator that takes memory, from the allocator outwards; some names stand for other calls."""
    if name == "workspace":
        return (
            frame("at::cuda::getNewWorkspace()"),
            frame("at::cuda::getCurrentCUDABlasHandle()"),
            frame("void at::cuda::blas::gemm<c10::BFloat16>(char, char, long, long, long, float, …)"),
            *calls("addmm"),
        )
    if name.startswith("nccl:"):
        return (
            frame("at::detail::empty_cuda(c10::ArrayRef<long>, c10::TensorOptions const&)"),
            frame(f"c10d::ProcessGroupNCCL::{name[5:]}(at::Tensor&, at::Tensor&)"),
            *calls(f"{name[5:]}_"),
        )
    empty = "empty_strided" if name in ("zeros_like", "new_empty_strided", "_to_copy") else "empty"
    return (
        frame(f"at::detail::{empty}_generic(c10::ArrayRef<long>, c10::Allocator*, c10::DispatchKeySet, …)"),
        frame(f"at::detail::{empty}_cuda(c10::ArrayRef<long>, c10::TensorOptions const&)"),
        *calls(name),
    )


def calls(name: str) -> Stack:
    return (
        frame(f"at::(anonymous namespace)::wrapper_CUDA_{name}(at::Tensor const&)", "RegisterCUDA_0.cpp"),
        frame(f"at::_ops::{name}::redispatch(c10::DispatchKeySet, at::Tensor const&)"),
        frame(
            f"torch::autograd::VariableType::(anonymous namespace)::{name}(c10::DispatchKeySet, at::Tensor const&)",
            "VariableType_0.cpp",
        ),
        frame(f"at::_ops::{name}::call(at::Tensor const&)"),
    )


@functools.cache
def node(name: str) -> Stack:
    """The frames by which autograd's thread comes to a node."""
    own: Stack
    if name == "AccumulateGrad":
        own = (
            frame("torch::autograd::utils::clone_obey_contract(at::Tensor const&, at::Tensor const&)", ""),
            frame("torch::autograd::AccumulateGrad::accumulateGrad(at::Tensor const&, at::Tensor const&)", ""),
            frame(
                "torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)",
            ),
        )
    else:
        own = (
            frame(
                f"torch::autograd::generated::{name}::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)",
            ),
        )
    return (*own, *ENGINE)


def interpreted(frames: tuple[Frame, ...], *, with_cpp: bool) -> Stack:
    """Frames of Python, innermost first, with the interpreter's own between them."""
    if not with_cpp or not frames:
        return frames
    mixed = [each for one in frames for each in (one, EVALUATE)]
    return (*mixed, *START)
