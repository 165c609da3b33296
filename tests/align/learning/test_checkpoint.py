"""A checkpoint comes back bit for bit, or is refused."""

import logging

import pytest
import torch

from align.learning.checkpoint import MARK, NAME, load_checkpoint, save_checkpoint

STATE = {"step": 3, "aligner": {"s": torch.arange(5.0)}}


def test_every_flipped_bit_is_found(tmp_path):
    save_checkpoint(tmp_path, STATE)
    content = (tmp_path / NAME).read_bytes()
    sealed = content.rindex(MARK)  # a mark that is damaged itself is no mark; what it sealed is then as it was
    for place in [*range(0, sealed, 31), *range(sealed + len(MARK), len(content))]:
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        (tmp_path / NAME).write_bytes(flipped)
        with pytest.raises(ValueError, match=r"checkpoint.pt is damaged: its digest .*delete it to start anew"):
            load_checkpoint(tmp_path)


def test_one_without_a_digest_loads_with_a_line_in_the_log(tmp_path, caplog):
    torch.save(STATE, tmp_path / NAME)
    with caplog.at_level(logging.INFO):
        assert torch.equal(load_checkpoint(tmp_path)["aligner"]["s"], STATE["aligner"]["s"])
    assert "checkpoint.pt has no digest: whether it is damaged cannot be told" in caplog.text


def test_what_is_no_state_is_refused(tmp_path):
    torch.save([1, 2], tmp_path / NAME)
    with pytest.raises(ValueError, match=r"checkpoint.pt is not a checkpoint \(it holds list\)"):
        load_checkpoint(tmp_path)
