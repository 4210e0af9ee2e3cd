"""Trainers: engines that generate, rollouts, algorithms, the training loop, evaluation.

Import from the modules themselves (`rlvr.trainers.loop`, `rlvr.trainers.losses`, ...): those that need torch load
it, the settings do not, so that a configuration can be checked on a machine without it.
"""
