"""Ctrl-C: work is told to stop, the wait is announced, and what goes on ends by force."""

import signal

import pytest

from support.fork_server import fork_python
from support.patience import patient

SERVER = r"""
import os, signal, sys, threading, time
from engine.integrations import end_by_signal
grace, ignores = float(sys.argv[1]), sys.argv[2] == "ignores"
end_by_signal.MIN_REPEAT_SECONDS = float(sys.argv[3])
signal.signal(signal.SIGINT, lambda *_: os.write(2, b"passed on\n"))  # the server's own handler
stop = threading.Event()
work = threading.Thread(target=lambda: threading.Event().wait() if ignores else stop.wait(), daemon=True)

def stop_work(seconds):
    stop.set()
    work.join(seconds)
    return not work.is_alive()

end_by_signal.EndBySignal(lambda line: print(line, flush=True), work.is_alive, stop_work, grace).install()
work.start()
print("ready", flush=True)
while work.is_alive():
    time.sleep(0.01)
print("stopped", flush=True)
"""


@pytest.fixture
def begin():
    started = []

    def start(grace, work, repeat="1"):
        started.append(process := fork_python("-c", SERVER, grace, work, repeat))
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_work_that_stops_lets_the_server_end_by_itself(begin):
    process = begin("60", "stops")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=patient(30))
    assert process.returncode == 0 and "stopped" in said and "force" not in said
    assert said.startswith("Stopping. What is being computed has 60 seconds to end; another Ctrl-C")


def test_work_that_does_not_stop_is_ended_by_force_in_time(begin):
    process = begin("0.2", "ignores")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=patient(30))
    assert process.returncode == 128 + signal.SIGINT and said.endswith(
        "Ended by force: something was still being computed.\n"
    )


def test_a_second_signal_ends_at_once(begin):
    process = begin("600", "ignores", "-1")
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline().startswith("Stopping.") and process.stderr.readline() == "passed on\n"
    process.send_signal(signal.SIGINT)
    said, passed_on = process.communicate(timeout=patient(30))
    assert process.returncode == 128 + signal.SIGINT and said == passed_on == ""


def test_the_echo_of_the_first_signal_goes_to_the_servers_own_handler_alone(begin):
    process = begin("600", "ignores", "600")
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == "passed on\n"
    assert process.poll() is None
