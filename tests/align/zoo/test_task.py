"""Tasks: what is learned, and what it is judged on."""

import math

import pytest
import torch

from align.data import load
from align.zoo.task import Classify, Images, Waves, example_input, make_task


def test_waves_are_sines_of_their_own_frequency() -> None:
    task = Waves()
    frequencies = [task.frequency(item) for item in range(200)]
    assert all(0.5 <= a <= 10 for a in frequencies)
    assert len(set(frequencies)) == 200
    assert 4.5 < sum(frequencies) / 200 < 6
    x, y = task.samples("train", 7)
    assert x.shape == y.shape == (256, 1)
    assert (x[0], x[-1]) == (-1, 1)
    torch.testing.assert_close(y, torch.sin(frequencies[7] * math.pi * x))


def test_a_wave_is_judged_between_the_points_it_was_learned_at() -> None:
    task = Waves()
    learned, judged = (task.samples(part, 3)[0].flatten() for part in ("train", "test"))
    assert ((learned[:-1] < judged) & (judged < learned[1:])).all()


def test_an_image_is_a_function_of_its_coordinates() -> None:
    data = load("digits")
    task = Images(data)
    x, y = task.samples("train", 5)
    assert x.shape == (64, 2)
    assert y.shape == (64, 1)
    row, column = 2, 6
    assert torch.equal(y[8 * row + column], data.train[0][5, :, row, column])
    torch.testing.assert_close(x[8 * row + column], torch.tensor([2 * row / 7 - 1, 2 * column / 7 - 1]))
    with pytest.raises(ValueError, match="the data set has 1260; lower count"):
        task.samples("train", 1260)


def test_classifiers_of_two_sides_know_different_classes() -> None:
    data = load("digits")
    first, second = (Classify(data, side) for side in ("first", "second"))
    low = [(task.samples("train")[1] < 5).float().mean() for task in (first, second)]
    assert low[0] > 0.9
    assert low[1] < 0.1
    assert len(first.train[0]) + len(second.train[0]) == len(data.train[0])
    assert torch.equal(first.samples("test")[1], data.test[1]), "both are judged on all classes"
    assert torch.equal(Classify(data).samples("train")[0], data.train[0])


@pytest.mark.parametrize(
    ("name", "shape"), [("waves", None), ("images", None), ("classify", None), ("classify", (3, 32, 32))]
)
def test_an_example_input_is_shaped_like_the_samples(name: str, shape: tuple[int, int, int] | None) -> None:
    data = None if name == "waves" else "digits"
    x, _ = make_task(name, data, shape).samples("train")
    assert example_input(name, data, shape).shape == x[:2].shape


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("sort", "digits", None), "no task 'sort'; choose classify, table, images or waves"),
        (("classify", None, None), "task classify needs a data set"),
        (("classify", "digits", None, "third"), "no side 'third' of a data set; choose one of all, first, second"),
        (("images", "digits", None, "first"), "a side has no meaning"),
    ],
)
def test_what_cannot_be_is_said(args: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_task(*args)
