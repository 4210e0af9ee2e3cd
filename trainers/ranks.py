"""The processes of a run: which of them this one is, and what they tell each other. Trivial where there is one."""

from __future__ import annotations

import atexit
import gc
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.distributed.tensor import DTensor

from ..verifiers import UserError

T = TypeVar("T")

# Gradients are summed in pieces of so many floats: 64 MiB.
_BUCKET_FLOATS = 2**24


class RankFailed(RuntimeError):
    """What made another process fail, with its traceback."""


class Ranks:
    """The processes of a run, of which there is one.

    Every method that talks to the others is to be called by all of them, in the same order.

    Attributes:
        number: which process this is, from 0.
        count: how many there are.
    """

    number = 0
    count = 1

    @property
    def main(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.number == 0

    def gather(self, value: T) -> list[T]:
        """The values of all processes, in the order of their numbers."""
        return [value]

    def broadcast(self, value: T) -> T:
        """The value of the main process."""
        return value

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of the tensors of all processes, which lie in main memory and are of one shape."""
        return tensor

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Make `.grad` of each parameter the sum of those of all processes, added in float32.

        One that has a gradient in some process has one in every process then. Sharded parameters are left alone:
        their gradients are summed in the backward pass.
        """

    def share(self, count: int) -> range:
        """Which of `count` things in a row are this process's; what cannot be divided goes to the first ones."""
        least, more = divmod(count, self.count)
        start = self.number * least + min(self.number, more)
        return range(start, start + least + (self.number < more))

    def every(self, items: Sequence[T]) -> Sequence[T]:
        """This process's part of things whose cost grows along the row, so that each has some of all costs."""
        return items[self.number :: self.count]

    def any(self, said: bool) -> bool:
        """Whether one of the processes says so."""
        return any(self.gather(said))

    def each(self, action: Callable[[], T]) -> T:
        """What `action` returns in this process; where it fails in one, all of them fail, so that none waits for it.

        Raises:
            UserError: in every process, the one that the first of them to fail met; `said_by_another` is set in all
                but the main one.
            RankFailed: where another process failed in any other way.
        """
        try:
            value, mine = action(), None
        except Exception as error:
            mine = error
        told = self.gather(None if mine is None else _told(mine))
        if mine is not None and not isinstance(mine, UserError):
            raise mine
        for number, failure in enumerate(told):
            if failure is not None:
                raise self._failed(number, mine, *failure)
        return value

    def together(self, action: Callable[[], T]) -> list[T]:
        """What `action` returns in each process; it fails as in `each`."""
        return self.gather(self.each(action))

    def alone(self, action: Callable[[], T]) -> T:
        """What `action` returns in the main process, the only one to do it; where it fails, all of them fail."""
        return self.broadcast(self.each(action if self.main else _nothing))

    def check_equal(self, what: str, value: Any) -> None:
        """Fail, in every process, if they do not agree on a value.

        Raises:
            UserError: if they do not.
        """
        values = self.gather(value)
        if any(other != values[0] for other in values):
            differing = next(number for number, other in enumerate(values) if other != values[0])
            raise self.agreed(
                UserError(
                    f"Process 0 and process {differing} of this run differ in {what}; start every process with the "
                    "same configuration, files and versions."
                )
            )

    def _failed(self, number: int, mine: Exception | None, sentence: str | None, trace: str) -> Exception:
        if sentence is None:
            return RankFailed(f"process {number} of {self.count} failed:\n{trace}")
        return self.agreed(mine if number == self.number and mine is not None else UserError(sentence))

    def agreed(self, error: Exception) -> Exception:
        """An error that every process raises, and only the main one is to speak of."""
        error.said_by_another = not self.main  # type: ignore[attr-defined]
        return error


class ProcessGroup(Ranks):
    """The processes that torch.distributed has joined.

    What lies in main memory goes over gloo, whatever backend the devices have.
    """

    def __init__(self) -> None:
        self.number, self.count = distributed.get_rank(), distributed.get_world_size()
        backend = distributed.get_backend()
        self._group = distributed.group.WORLD if backend == "gloo" else distributed.new_group(backend="gloo")

    def gather(self, value: T) -> list[T]:
        """See `Ranks.gather`."""
        values: list[Any] = [None] * self.count
        distributed.all_gather_object(values, value, group=self._group)
        return values

    def broadcast(self, value: T) -> T:
        """See `Ranks.broadcast`."""
        box = [value]
        distributed.broadcast_object_list(box, src=0, group=self._group, device=torch.device("cpu"))
        return box[0]

    def sum(self, tensor: Tensor) -> Tensor:
        """See `Ranks.sum`."""
        total = tensor.clone()
        distributed.all_reduce(total, group=self._group)
        return total

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """See `Ranks.sum_gradients`."""
        own = [parameter for parameter in parameters if not isinstance(parameter, DTensor)]
        has = self.sum(torch.tensor([parameter.grad is not None for parameter in own], dtype=torch.int32))
        moved = [parameter for parameter, count in zip(own, has.tolist(), strict=True) if count]
        for bucket in _buckets(moved):
            _sum_bucket(bucket)


def ranks_of_this_run() -> Ranks:
    """The processes that torch.distributed has joined, or this one."""
    if not (distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1):
        return Ranks()
    atexit.unregister(_leave)
    atexit.register(_leave)
    return ProcessGroup()


def _leave() -> None:
    """End the threads of all groups: one that lets go of its last tensor while the interpreter ends aborts the process.

    They end with the last reference to their group, which a trainer holds in cycles.
    """
    if distributed.is_initialized():
        distributed.destroy_process_group()
    gc.collect()


def _buckets(parameters: Sequence[nn.Parameter]) -> Iterable[list[nn.Parameter]]:
    bucket: list[nn.Parameter] = []
    for parameter in parameters:
        if bucket and sum(other.numel() for other in bucket) + parameter.numel() > _BUCKET_FLOATS:
            yield bucket
            bucket = []
        bucket.append(parameter)
    if bucket:
        yield bucket


def _sum_bucket(parameters: Sequence[nn.Parameter]) -> None:
    flat = torch.cat(
        [
            (parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)).flatten().float()
            for parameter in parameters
        ]
    )
    distributed.all_reduce(flat)
    for parameter, total in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        parameter.grad = total.view_as(parameter).to(parameter.dtype)


def _told(error: Exception) -> tuple[str | None, str]:
    """The sentence of a user's mistake, and where it was met."""
    return str(error) if isinstance(error, UserError) else None, "".join(traceback.format_exception(error))


def _nothing() -> Any:
    return None
