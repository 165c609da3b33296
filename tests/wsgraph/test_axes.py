import pytest

from wsgraph.axes import Atom, fixed, free, leaves, pin, resolve, size_of, tie
from wsgraph.regroup import reshape


def reasons(dim):
    return [atom.pinned for atom in leaves(dim)]


def test_tied_dimensions_become_one_axis():
    a, b, c = free(4), free(4), free(4)
    tie(a, b)
    tie(b, c)
    assert resolve(a) == resolve(b) == resolve(c)
    assert resolve(a) != resolve(free(4))


@pytest.mark.parametrize("first", [True, False])
def test_a_pin_reaches_whatever_is_tied_before_or_after(first):
    a, b = free(4), free(4)
    if first:
        pin(a, "network input")
    tie(a, b)
    if not first:
        pin(a, "network input")
    assert reasons(b) == ["network input"]


def test_the_first_reason_for_a_pin_is_kept():
    a = fixed(4, "network input")
    pin(a, "sliced")
    assert reasons(a) == ["network input"]


def test_an_axis_tied_to_a_product_takes_its_structure():
    channels, rows, linear = free(3), fixed(2, "position"), free(6)
    (flat,) = reshape([channels, rows], [6])
    tie(flat, linear)
    assert resolve(linear) == ((*resolve(channels)[0], *resolve(rows)[0]),)


def test_sizes_must_agree():
    with pytest.raises(ValueError, match="cannot tie a dimension of 3 elements to one of 4"):
        tie(free(3), free(4))


def test_reshape_splits_what_it_merged():
    dims = [free(2), free(3), free(5)]
    merged = reshape(dims, [6, 5])
    assert [size_of(d) for d in merged] == [6, 5]
    assert reshape(merged, [2, 3, 5]) == dims


def test_reshape_splits_an_axis_into_nested_ones():
    channels = free(8)
    heads, dims = reshape([channels], [2, 4])
    assert resolve(channels) == (heads[0] + dims[0],)
    assert leaves(dims)[0].inside == tuple(leaves(heads))
    assert not any(reasons(channels))


def test_reshape_pins_what_it_cannot_split_evenly():
    tokens, channels = free(5), free(8)
    out = reshape([tokens, channels], [8, 5])
    assert reasons(tokens) == reasons(channels) == ["split by a reshape"]
    assert [reasons(d) for d in out] == [["split by a reshape"]] * 2


@pytest.mark.parametrize("ones", [[4, 1], [1, 4], [4, 1, 1], [1, 4, 1]])
def test_reshape_adds_and_removes_axes_of_one_element(ones):
    channels = free(4)
    there = reshape([channels], ones)
    (back,) = reshape(there, [4])
    assert [size_of(d) for d in there] == ones
    assert [a for a in leaves(back) if a.size > 1] == leaves(channels)
    assert not any(reasons(back))


def test_an_axis_can_be_tied_to_itself_behind_axes_of_one_element():
    channels = free(4)
    (disguised,) = reshape([channels, free(1)], [4])
    tie(channels, disguised)
    assert leaves(channels)[0].bound is None


def test_products_are_split_until_they_match():
    a, b = reshape([free(2), free(8)], [16]), reshape([free(4), free(4)], [16])
    tie(a[0], b[0])
    assert resolve(a[0]) == resolve(b[0])
    assert [atom.size for atom in leaves(a[0])] == [2, 2, 4]


def test_misaligned_products_are_pinned():
    a, b = reshape([free(2), free(3)], [6]), reshape([free(3), free(2)], [6])
    tie(a[0], b[0])
    assert all(reasons(a[0]))
    assert all(reasons(b[0]))


def test_aligned_concatenations_tie_part_by_part():
    a, b, c, d = free(2), free(3), free(2), free(3)
    tie(a + b, c + d)
    assert resolve(a) == resolve(c)
    assert resolve(b) == resolve(d)
    assert not any(reasons(a + b))


def test_misaligned_concatenations_are_pinned():
    a, b = free(2) + free(4), free(3) + free(3)
    tie(a, b)
    assert all(reasons(a))
    assert all(reasons(b))


def test_flattening_a_concatenation_keeps_its_parts():
    a, b, pixels = free(2), free(3), fixed(4, "position")
    (flat,) = reshape([a + b, pixels], [20])
    assert flat == ((*a[0], *pixels[0]), (*b[0], *pixels[0]))


def test_repeated_concatenations_are_pinned():
    """heads × (a + b) is laid out head by head: the heads still move, what is inside them does not."""
    heads, inner, ends = free(3), free(5), free(2) + free(3)
    (flat,) = reshape([heads, inner], [15])
    tie(inner, ends)
    assert [atom.size for atom in leaves(flat)] == [3, 5]
    assert reasons(heads) == [""]
    assert reasons(ends) == ["repeated concatenation"] * 2


def test_concatenations_repeated_along_positions_are_parts():
    rows, inner = fixed(3, "position"), free(5)
    (flat,) = reshape([rows, inner], [15])
    tie(inner, free(2) + free(3))
    assert [size_of((part,)) for part in resolve(flat)] == [2, 3] * 3


def test_binding_passes_on_what_is_known_about_an_axis():
    a = ((Atom(4, feature=True, activations=["relu"]),),)
    b = free(4)
    tie(a, b)
    assert leaves(b)[0].feature
    assert leaves(b)[0].activations == ["relu"]
