import logging
import sys
import threading
import warnings

import torch
from networks import mlp

from wsgraph import trace
from wsgraph.quiet import quiet

LOG = logging.getLogger("torch.fx.experimental.symbolic_shapes")


def test_torch_is_silent_inside_and_speaks_behind(caplog):
    with quiet():
        LOG.warning("inside")
        warnings.warn("inside", stacklevel=1)
        logging.getLogger("mine").warning("mine")
    LOG.warning("behind")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.warn("behind", stacklevel=1)
    assert caplog.messages == ["mine", "behind"]
    assert [str(w.message) for w in seen] == ["behind"]


def test_other_threads_are_heard(caplog):
    def speak():
        LOG.warning("log")
        warnings.warn("warning", stacklevel=1)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with quiet():
            thread = threading.Thread(target=speak)
            thread.start()
            thread.join()
    assert caplog.messages == ["log"]
    assert [str(w.message) for w in seen] == ["warning"]


def test_a_copy_of_the_filters_that_stays_silences_nothing(recwarn):
    """Another thread may save the filters while they are in place and put them back later."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with quiet():
            saved = warnings.filters[:]
        warnings.filters[:] = saved
        warnings.warn("behind", stacklevel=1)
    assert [str(w.message) for w in recwarn] == ["behind"]


def test_no_line_is_lost_while_another_thread_traces(capfd, monkeypatch):
    """All that is printed, logged or warned of in one thread while another one traces gets through."""
    done, lines = threading.Event(), [0]
    handler, log = logging.StreamHandler(sys.stderr), logging.getLogger("mine")
    monkeypatch.setattr(log, "propagate", False)  # to what other tests left at the root, their streams closed
    log.addHandler(handler)

    def speak():
        while not done.is_set():
            lines[0] += 1
            print("to stdout")  # noqa: T201
            print("to stderr", file=sys.stderr)  # noqa: T201
            log.warning("to the log")
            done.wait(0.002)

    thread = threading.Thread(target=speak)
    thread.start()
    try:
        for width in range(20, 24):
            trace(mlp(4, width, 2), torch.randn(2, 4))
    finally:
        done.set()
        thread.join()
        log.removeHandler(handler)
    out, err = capfd.readouterr()
    assert lines[0] > 10
    assert out.count("to stdout") == err.count("to stderr") == err.count("to the log") == lines[0]
