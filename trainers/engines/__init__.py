"""Engines write completions: token ids in, token ids out."""

from .base import Completion, Engine, Sampling

__all__ = ["Completion", "Engine", "Sampling"]
