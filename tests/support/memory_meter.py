"""Live bytes of tensors, counted as torch makes them."""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class MemoryMeter(TorchDispatchMode):
    """Counts while it is active; `limit`, in bytes, makes memory run out as a GPU's does."""

    def __init__(self, limit=None):
        super().__init__()
        self.limit = limit
        self.live = self.peak = 0
        self.ran_out = []
        """Live bytes whenever the limit was passed."""
        self._seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.prim.device.default:
            return args[0].fake_device
        if func is torch.ops.aten._local_scalar_dense.default and hasattr(args[0], "fake_device"):
            return 0.0
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self._hold(tensor.untyped_storage())
        return out

    def _hold(self, storage):
        key, size = id(storage), storage.nbytes()
        if key in self._seen:
            return
        self._seen.add(key)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._free, key, size)
        if self.limit is not None and self.live > self.limit:
            self.ran_out.append(self.live)
            raise torch.OutOfMemoryError("CUDA out of memory.")

    def _free(self, key, size):
        self._seen.discard(key)
        self.live -= size
