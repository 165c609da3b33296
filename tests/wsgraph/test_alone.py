import pytest

from wsgraph.alone import alone


def test_the_second_is_refused_until_the_first_is_done(tmp_path):
    with (
        alone(tmp_path / "new", OSError()),
        pytest.raises(OSError, match="busy"),
        alone(tmp_path / "new", OSError("busy")),
    ):
        pass
    with alone(tmp_path / "new", OSError()):
        pass


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(OSError, match=r"file/run cannot be written to \(.*\); choose another folder"),
        alone(tmp_path / "file" / "run", OSError()),
    ):
        pass
