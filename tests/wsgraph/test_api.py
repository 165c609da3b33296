import wsgraph

PUBLIC = [
    "Axis", "Encoder", "EncoderConfig", "Group", "Param", "Permutation", "Spec", "WeightGraph",
    "augment", "draw", "testing", "to_graph", "trace",
]  # fmt: skip


def test_public_names_are_pinned():
    assert sorted(wsgraph.__all__) == PUBLIC


def test_every_public_name_exists_and_is_documented():
    assert [name for name in wsgraph.__all__ if not getattr(wsgraph, name).__doc__] == []
