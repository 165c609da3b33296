"""Contents that once got an answer of a new kind, or none, are read or refused; so is any JSON."""

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reliability.fuzzing import CORPUS, corpus_of, folder_name, replay
from reliability.targets import REFUSALS, TARGETS

from align.deep_align import config_from
from wsgraph import Spec

FIELDS = ("groups", "params", "scalings", "name", "size", "axes", "parts", "encoder", "hidden", "scale")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), inner),
    max_leaves=8,
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_is_read_or_refused(name):
    assert len(list(replay(name))) == len(corpus_of(name)) > 0


def test_the_corpus_is_of_these_readers_and_small():
    assert {path.name for path in CORPUS.iterdir()} == {folder_name(name) for name in TARGETS}
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < 500_000


@settings(max_examples=25)
@given(VALUES)
def test_any_json_is_read_or_refused(value):
    for read in (config_from, lambda v: Spec.from_json(json.dumps(v))):
        with suppress(*REFUSALS):
            read(value)
