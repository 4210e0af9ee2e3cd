"""The state of this process that vLLM changes for itself, and that training must find as it left it."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Put torch's global random state back: vLLM draws from it even where every request has its own seed."""
    cpu = torch.random.get_rng_state()
    device = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    try:
        yield
    finally:
        torch.random.set_rng_state(cpu)
        if device is not None:
            torch.cuda.set_rng_state(device)


@contextmanager
def kept_process_state(defaults: Mapping[str, str]) -> Iterator[None]:
    """What the construction of a vLLM engine leaves changed in its process is put back.

    That is the random states of torch, numpy and random (it seeds all three), torch's number of threads and the very
    function that sets it (vLLM puts one that does nothing in its place), the precision of float32 products, and the
    environment variables that are not vLLM's own, which programs started later would inherit.

    Args:
        defaults: environment variables for the time being, where the user has not set them.
    """
    environment = dict(os.environ)
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    threads, set_threads = torch.get_num_threads(), torch.set_num_threads
    precision = torch.get_float32_matmul_precision()
    os.environ.update({name: value for name, value in defaults.items() if name not in environment})
    try:
        with kept_random_state():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002
        torch.set_num_threads = set_threads
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)
        _put_back(environment, defaults)


def _put_back(environment: Mapping[str, str], defaults: Mapping[str, str]) -> None:
    for name in set(os.environ) | set(environment):
        if name.startswith("VLLM_") and name not in defaults:
            continue  # its workers look these up for as long as the engine lives
        if name in environment:
            os.environ[name] = environment[name]
        else:
            os.environ.pop(name, None)
