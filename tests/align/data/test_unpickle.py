"""No pickle makes anything run."""

import os
import pickle
from collections import OrderedDict
from pathlib import Path

import fake_data
import numpy as np
import pytest

from align.data.unpickle import unpickle


class Evil:
    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple:
        return self.call


def write(path: Path, content: object, protocol: int = 3) -> Path:
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


@pytest.mark.parametrize("protocol", [0, 2, 3, 4, 5])
def test_a_malicious_pickle_runs_nothing(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "harmed"
    evil = write(tmp_path / "evil", {"data": Evil(os.mkdir, str(target))}, protocol)
    with pytest.raises(ValueError, match=r"evil is not a pickle of plain arrays: it names .*mkdir"):
        unpickle(evil)
    assert not target.exists()
    pickle.loads(evil.read_bytes())
    assert target.exists()  # so it was malicious indeed


@pytest.mark.parametrize(
    "content",
    [
        Evil(eval, "1 + 1"),
        Evil(getattr, "x", "upper"),
        Evil(np.load, "file"),
        OrderedDict(a=1),
        {b"data": np.zeros(3)},  # floats
        {b"data": np.array([{}], dtype=object)},
        np.float64(1),
    ],
)
def test_everything_but_plain_data_is_refused(tmp_path: Path, content: object) -> None:
    with pytest.raises(ValueError, match="not a pickle of plain arrays: "):
        unpickle(write(tmp_path / "file", content))


@pytest.mark.parametrize(
    "program",
    [
        b"",
        b"garbage",
        b"cnumpy\nfromfile\n.",
        b"cnumpy.core.multiarray\n_reconstruct.__init__\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x10ndarray.__mro__.\x93.",
        b"\x82\x01.",  # an extension
        b"Pid\n.",  # a persistent id
        b"cnumpy\nndarray\n)R(I1\n(I9\nt(S'u1'\ntcnumpy\ndtype\n(S'u1'\ntRI00\nS'abc'\ntb.",  # shape and bytes disagree
        b"cnumpy\nndarray\n)R(I1\n(I-1\ntcnumpy\ndtype\n(S'u1'\ntRI00\nS'abc'\ntb.",  # a negative size
        b"cnumpy\nndarray\n(dS'value'\nI1\nsb.",  # changing the class instead of an array
    ],
)
def test_hand_written_programs_are_refused(tmp_path: Path, program: bytes) -> None:
    (tmp_path / "file").write_bytes(program)
    with pytest.raises(ValueError, match="not a pickle of plain arrays: "):
        unpickle(tmp_path / "file")


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_both_pythons(tmp_path: Path, order: str) -> None:
    array = np.asarray(np.arange(12, dtype=np.uint8).reshape(3, 4), order=order)  # type: ignore[call-overload]
    new = unpickle(write(tmp_path / "new", {"data": array, "labels": [1, 2]}))
    (tmp_path / "old").write_bytes(fake_data.old_pickle({b"data": array, b"labels": [1, 2]}))
    old = unpickle(tmp_path / "old")
    for content in (new, old):
        assert np.array_equal(content[b"data"], array)
        assert content[b"labels"] == [1, 2]


@pytest.mark.filterwarnings("ignore:numpy.core:DeprecationWarning")  # it moved, and says so
def test_the_hand_written_old_pickle_is_a_real_one() -> None:
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    content = pickle.loads(fake_data.old_pickle({b"data": array, b"labels": [3]}), encoding="bytes")
    assert np.array_equal(content[b"data"], array)
    assert content[b"labels"] == [3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80\x02Nr\xff\xff\xff\x0f.", "it numbers its values up to 268435455, and has 9 bytes"),
        (b"\x80\x05\x96\x00\x00\x00\x00\x08\x00\x00\x00.", "expected 34359738368 bytes in a bytearray8, but only 1"),
    ],
)
def test_sizes_that_are_not_there_are_refused_before_they_are_allocated(tmp_path, content, message):
    (tmp_path / "batch").write_bytes(content)
    with pytest.raises(ValueError, match=f"batch is not a pickle of plain arrays: {message}"):
        unpickle(tmp_path / "batch")
