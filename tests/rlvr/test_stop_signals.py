"""What is asked of a trainer when signals come, without one that runs."""

from __future__ import annotations

import contextlib
import os
import signal
from types import SimpleNamespace

import pytest

from rlvr.stopping import Stopped, StopSignals


@pytest.fixture
def trainer():
    said = []
    return SimpleNamespace(stop_requested=False, stop_signal=None, reporter=SimpleNamespace(say=said.append), said=said)


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)


def test_without_a_trainer_a_signal_stops_at_once():
    reached = False
    with StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        reached = True
    assert signals.stopped
    assert not reached
    assert signals.exit_code == 143


def test_what_an_interrupted_import_makes_of_it_is_a_stop_too():
    """Python 3.11 wraps what `__set_name__` raises, and libraries wrap what a module raises."""

    class Interrupted:
        def __set_name__(self, owner, name):
            os.kill(os.getpid(), signal.SIGTERM)

    with StopSignals() as signals:
        try:
            type("Config", (), {"size": Interrupted()})
        except RuntimeError as error:
            raise ModuleNotFoundError("Could not import module 'Config'.") from error
    assert signals.stopped
    assert signals.exit_code == 143


def test_a_signal_that_was_swallowed_stops_before_the_trainer_runs(trainer):
    with StopSignals() as signals:
        # As code that C calls does.
        with contextlib.suppress(BaseException):
            os.kill(os.getpid(), signal.SIGTERM)
        signals.watch(trainer)
    assert signals.stopped
    assert not trainer.stop_requested


def test_a_signal_that_was_swallowed_stops_where_a_program_without_a_trainer_asks():
    with StopSignals() as signals:
        signals.check()
        with contextlib.suppress(BaseException):
            os.kill(os.getpid(), signal.SIGINT)
        signals.check()
        raise AssertionError("it went on")
    assert signals.stopped
    assert signals.exit_code == 130


def test_what_else_fails_is_raised_as_it_is(trainer):
    signals = StopSignals()

    def fail():
        with signals:
            signals.watch(trainer)
            os.kill(os.getpid(), signal.SIGTERM)
            raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        fail()
    assert not signals.stopped


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_trainer_is_asked_once_and_the_second_signal_stops_at_once(trainer, number, code):
    with StopSignals() as signals:
        signals.watch(trainer)
        assert signals.exit_code == 0
        os.kill(os.getpid(), number)
        assert trainer.stop_requested
        assert len(trainer.said) == 1
        with pytest.raises(Stopped):
            os.kill(os.getpid(), number)
    assert signals.exit_code == code


def test_the_code_is_that_of_the_signal_that_another_process_got(trainer):
    with StopSignals() as signals:
        signals.watch(trainer)
        trainer.stop_signal = signal.SIGTERM
    assert signals.exit_code == 143


def test_what_a_launcher_repeats_at_once_counts_as_one(trainer, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    clock = [100.0]
    monkeypatch.setattr("rlvr.stopping.time.monotonic", lambda: clock[0])
    with StopSignals() as signals:
        signals.watch(trainer)
        os.kill(os.getpid(), signal.SIGINT)
        clock[0] += 1.0
        os.kill(os.getpid(), signal.SIGTERM)
        assert trainer.stop_requested
        clock[0] += 5.0
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGINT)
    assert signals.exit_code == 130


def test_a_line_that_is_being_written_does_not_lose_the_signal(trainer):
    def busy(message):
        raise RuntimeError("reentrant call")

    trainer.reporter.say = busy
    with StopSignals() as signals:
        signals.watch(trainer)
        os.kill(os.getpid(), signal.SIGTERM)
    assert trainer.stop_requested


def test_the_handlers_from_before_come_back(trainer):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with StopSignals():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
