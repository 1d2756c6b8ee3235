"""Checkpoints are not written in a trial: the writers of torch and of frameworks do nothing, and touch no file.

Modules that the program has not imported yet are changed when it imports them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from kinetoscope.record.always_on.when_imported import when_imported
from kinetoscope.record.trials.unwritten_files import UnwrittenFiles

_WHY: Final = "kinetoscope wrote no checkpoints in a trial; allow with --allow writes"

_FILES: Final = UnwrittenFiles()

_is_attached: Final[list[bool]] = []


def attach() -> None:
    """From here on, nothing writes a checkpoint."""
    if _is_attached:
        return
    _is_attached.append(True)
    _FILES.attach()
    when_imported(_WRITERS)


def _torch(torch: Any) -> None:
    _write_nothing(torch, "save", path=1)
    torch.serialization.save = torch.save
    _write_nothing(torch.jit, "save", path=1)
    _read_nothing(torch, "load")
    torch.serialization.load = torch.load


def _safetensors(module: Any) -> None:
    _write_nothing(module, "save_file", path=1)
    _read_nothing(module, "load_file")


def _transformers_trainer(module: Any) -> None:
    _write_nothing(module.Trainer, "_save_checkpoint")
    _write_nothing(module.Trainer, "save_model")


def _transformers_model(module: Any) -> None:
    _write_nothing(module.PreTrainedModel, "save_pretrained")


def _lightning(module: Any) -> None:
    _write_nothing(module.Trainer, "save_checkpoint", path=1)


def _distributed_checkpoint(module: Any) -> None:
    _write_nothing(module, "save")
    _write_nothing(module, "async_save", answer=_done)


def _deepspeed(module: Any) -> None:
    _write_nothing(module.DeepSpeedEngine, "save_checkpoint", answer=lambda: True)


_WRITERS: Final[dict[str, Callable[[Any], None]]] = {
    "torch": _torch,
    "safetensors.torch": _safetensors,
    "transformers.trainer": _transformers_trainer,
    "transformers.modeling_utils": _transformers_model,
    "lightning.pytorch.trainer.trainer": _lightning,
    "pytorch_lightning.trainer.trainer": _lightning,
    "torch.distributed.checkpoint.state_dict_saver": _distributed_checkpoint,
    "deepspeed.runtime.engine": _deepspeed,
}
"""What is done to each module that has writers."""


def _done() -> Any:
    from concurrent.futures import Future

    future: Future[None] = Future()
    future.set_result(None)
    return future


def _write_nothing(owner: Any, name: str, *, path: int | None = None, answer: Callable[[], Any] = lambda: None) -> None:
    """Have a function or method do nothing, but remember the path that it was given, its argument number `path`.

    What goes to something else than a path, a buffer for example, is written.
    """
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def write(*args: Any, **kwargs: Any) -> Any:
        if path is not None:
            target = args[path] if len(args) > path else next((kwargs[each] for each in _NAMES if each in kwargs), None)
            if not _is_path(target):
                return original(*args, **kwargs)
            _FILES.add(target)
        return answer()

    setattr(owner, name, write)


_NAMES: Final = ("f", "filename", "filepath")
"""How writers call their path."""


def _read_nothing(owner: Any, name: str) -> None:
    """Have a function that reads say what became of a file that was not written."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def read(*args: Any, **kwargs: Any) -> Any:
        source = args[0] if args else next((kwargs[each] for each in _NAMES if each in kwargs), None)
        if not _is_path(source):
            return original(*args, **kwargs)
        if _FILES.has(source):
            raise FileNotFoundError(f"{source}: {_WHY}")
        try:
            return original(*args, **kwargs)
        except FileNotFoundError as error:  # another rank may have meant to write it
            raise FileNotFoundError(f"{source} is not there; {_WHY}") from error

    setattr(owner, name, read)


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, bytes)) or hasattr(value, "__fspath__")
