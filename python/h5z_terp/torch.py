"""Samples for training with PyTorch from HDF5 files. Import it on demand: it
imports torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import math
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]
from torch.utils.data import (  # type: ignore[import-not-found,unused-ignore]
    IterableDataset, get_worker_info)

from . import _codec
from ._samples import Samples

# Their signed namesakes are torch's only integers of this size.
_NO_TORCH = {np.dtype(name) for name in ("u2", "u4", "u8")}


def _process() -> tuple[int, int]:
    """The number of this process, from 0 on, and the number of processes."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()


def _tensor(values: Any) -> torch.Tensor:
    if isinstance(values, torch.Tensor):
        return values
    values = np.asarray(values)
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if values.dtype in _NO_TORCH:
        values = values.astype(f"i{min(2 * values.dtype.itemsize, 8)}")
    return torch.from_numpy(values)


class SampleDataset(IterableDataset):
    """Samples as tensors, for DataLoader::

        from h5z_terp.torch import SampleDataset

        dataset = SampleDataset("train.h5", ["x", "y"], batch=32)
        loader = torch.utils.data.DataLoader(dataset, batch_size=None,
                                             num_workers=4)
        for x, y in loader:  # tensors of 32 rows each
            ...

    The arguments are those of ``h5z_terp.Samples``, and:

    - ``dtype``: tensors of floating-point values get this torch.dtype
    - ``transform``: a function that makes what is handed over from a tensor, or
      from a tuple of tensors

    With ``batch`` give DataLoader ``batch_size=None``; without ``batch``,
    DataLoader stacks single samples itself, which takes longer. Workers of
    DataLoader, forked or spawned, open the files themselves, read other blocks
    each, and share the processors. So do processes of torch.distributed, which get
    the same number of samples each; with several processes a ``seed`` is needed.

    Without a ``seed`` the order follows torch's seed, and differs in each epoch.
    With a ``seed``, ``set_epoch`` changes the order; set it before an iteration
    begins, and do not use DataLoader's ``persistent_workers``, whose copies do
    not see it.

    ``device="cuda"``: tensors are on the GPU, which decodes. Read them in the
    process that uses them: ``num_workers=0``; blocks are read ahead by a thread.

    Unsigned integers of 16 to 64 bits become the next larger signed type; of 64
    bits those from 2**63 on become negative.

    The errors are those of ``Samples``; RuntimeError for ``device="cuda"`` in a
    worker.
    """

    def __init__(self, paths: Any, names: Any, *,
                 dtype: torch.dtype | None = None,
                 transform: Callable[[Any], Any] | None = None,
                 **arguments: Any) -> None:
        super().__init__()
        arguments.setdefault(
            "library", "torch" if arguments.get("device") == "cuda" else None)
        self.samples = Samples(paths, names, **arguments)
        self.dtype = dtype
        self.transform = transform
        self._place = 0, 1  # of the process that pickled this object

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_place": self._process()}

    def _process(self) -> tuple[int, int]:
        """A worker that was spawned does not know torch.distributed."""
        process, nprocesses = _process()
        if nprocesses == 1 and get_worker_info() is not None:
            return self._place
        return process, nprocesses

    def set_epoch(self, epoch: int) -> None:
        """Sets the number that together with the seed gives the order."""
        self.samples.set_epoch(epoch)

    def _shared(self) -> Samples:
        """What this process reads in its next iteration."""
        samples = self.samples
        worker = get_worker_info()
        process, nprocesses = self._process()
        if worker is not None and samples.device == "cuda":
            raise RuntimeError("device=\"cuda\" needs DataLoader's num_workers=0")
        if samples.seed is None and nprocesses == 1:
            # The workers of an epoch have one seed, plus their number.
            seed = (worker.seed - worker.id if worker is not None else
                    int(torch.empty((), dtype=torch.int64).random_().item()))
            samples = samples._with(seed=seed)
        if nprocesses > 1:
            samples = samples.shard(process, nprocesses)
        if worker is not None:
            threads = _codec.thread_count(samples.threads)
            samples = samples.shard(worker.id, worker.num_workers, equal=False)
            samples = samples._with(
                threads=math.ceil(threads / worker.num_workers))
        return samples

    def __len__(self) -> int:
        """The number of samples or batches of this process. With ``batch``, each
        worker of DataLoader has a last batch of its own."""
        process, nprocesses = self._process()
        samples = self.samples
        return len(samples.shard(process, nprocesses) if nprocesses > 1 else samples)

    def _made(self, values: Any) -> torch.Tensor:
        tensor = _tensor(values)
        if self.dtype is not None and tensor.is_floating_point():
            tensor = tensor.to(self.dtype)
        return tensor

    def __iter__(self) -> Iterator[Any]:
        for found in self._shared():
            made = (tuple(map(self._made, found)) if isinstance(found, tuple)
                    else self._made(found))
            yield made if self.transform is None else self.transform(made)
