"""A GPU simulated on the CPU: it finds tensors of two devices in one operation, and reads of a GPU's memory by NumPy.

What it computes is the CPU's own arithmetic, so speed, rounding and shortage of memory stay for a real GPU
(`tests/gpu/run.py`).
"""

from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = "meta"
"""What code calls the simulated device: without CUDA, PyTorch refuses the name "cuda" before this is asked."""
MIXING = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::copy_")
"""Operations that take tensors of the CPU beside those of a GPU: an index, and the source of a copy."""


class GpuTensor(torch.Tensor):
    """A tensor of the simulated GPU; `on_cpu` holds its numbers."""

    is_cuda = property(lambda self: True)
    is_meta = property(lambda self: False)

    @staticmethod
    def __new__(cls, on_cpu):
        layout = {"strides": on_cpu.stride(), "storage_offset": on_cpu.storage_offset(), "dtype": on_cpu.dtype}
        tensor = torch.Tensor._make_wrapper_subclass(cls, on_cpu.size(), device=torch.device(DEVICE), **layout)
        tensor.on_cpu = on_cpu
        return tensor

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        with _RunOnCpu():
            return operation(*args, **(kwargs or {}))

    def __getitem__(self, index):
        # PyTorch would put a list on the device "meta", where it loses its numbers.
        parts = index if isinstance(index, tuple) else (index,)
        parts = tuple(torch.tensor(part) if isinstance(part, list) else part for part in parts)
        return super().__getitem__(parts if isinstance(index, tuple) else parts[0])

    def new_tensor(self, data, **options):
        return GpuTensor(self.on_cpu.new_tensor(data, **options))

    def tolist(self):
        return self.on_cpu.tolist()

    def numpy(self, **options):
        raise TypeError("NumPy cannot read a GPU's tensor: copy it to the CPU first")

    def __array__(self, *args, **kwargs):
        return self.numpy()

    def data_ptr(self):
        return self.on_cpu.data_ptr()


class _RunOnCpu(TorchDispatchMode):
    """While it is entered, operations of the simulated GPU run on the CPU, and refuse tensors of both."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        tensors = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, torch.Tensor)]
        on_gpu = [tensor for tensor in tensors if isinstance(tensor, GpuTensor)]
        name = operation._schema.name
        if on_gpu and name not in MIXING:
            # A number may lie anywhere.
            strangers = [tensor for tensor in tensors if tensor.ndim and not isinstance(tensor, GpuTensor)]
            if strangers:
                raise RuntimeError(f"{name} was asked of a GPU's tensor and of the CPU's, {tuple(strangers[0].shape)}")
        to_gpu = bool(on_gpu) and name != "aten::_local_scalar_dense"
        if kwargs.get("device") is not None:
            to_gpu = torch.device(kwargs["device"]).type == DEVICE
            kwargs["device"] = torch.device("cpu")
        result = operation(*tree_map(on_cpu, args), **tree_map(on_cpu, kwargs))
        if not to_gpu:
            return args[0] if name == "aten::copy_" else result
        # What an operation changes in place stays the tensor that it was.
        known = {id(tensor.on_cpu): tensor for tensor in on_gpu}
        return tree_map(lambda value: known[id(value)] if id(value) in known else _wrapped(value), result)


class _MakeFromLists(TorchFunctionMode):
    """While it is entered, lists become tensors of the simulated GPU, where PyTorch would make empty ones."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function in (torch.tensor, torch.as_tensor) and str(kwargs.get("device")) == DEVICE:
            return on_gpu(function(*args, **{**kwargs, "device": "cpu"}))
        return function(*args, **kwargs)


@contextmanager
def simulated_gpu():
    """Simulate a GPU inside, under the name DEVICE."""
    with _MakeFromLists(), _RunOnCpu():
        yield


def on_cpu(value):
    """Return the CPU's tensor of a simulated GPU's, and any other value as it is."""
    return value.on_cpu if isinstance(value, GpuTensor) else value


def on_gpu(array):
    """Return a copy of an array or a tensor on the simulated GPU."""
    return GpuTensor(torch.as_tensor(array).clone())


def _wrapped(value):
    return GpuTensor(value) if isinstance(value, torch.Tensor) else value
