"""Tables that commands write into a page."""

import re
from pathlib import Path

import pytest

from align.benchmark.page import PLACE, fill

PAGE = """# Results

<!-- mlp/table.md -->
old
<!-- end -->

words

<!-- cnn/table.md -->

kept

<!-- end -->
"""


def test_what_is_there_takes_its_place_and_the_rest_stays(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    (tmp_path / "mlp").mkdir()
    (tmp_path / "mlp" / "table.md").write_text("| new \\1 |\n")
    assert fill(page, tmp_path) == {"mlp/table.md": True, "cnn/table.md": False}
    text = page.read_text()
    assert "old" not in text
    assert "<!-- mlp/table.md -->\n\n| new \\1 |\n\n<!-- end -->\n\nwords\n" in text
    assert "\nkept\n" in text
    fill(page, tmp_path)
    assert page.read_text() == text


def test_a_place_without_an_end_does_not_swallow_what_follows(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("<!-- end -->", "", 1))
    with pytest.raises(ValueError, match=r"<!-- mlp/table.md --> has no <!-- end -->"):
        fill(page, tmp_path)


def test_a_page_without_places_is_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("words\n")
    with pytest.raises(ValueError, match="has no place for a table"):
        fill(page, tmp_path)
    assert page.read_text() == "words\n"


def test_the_page_of_results_says_by_which_command_every_table_was_made():
    text = (Path(__file__).parents[3] / "docs" / "results.md").read_text()
    places = list(PLACE.finditer(text))
    assert places
    assert text.count("<!-- end -->") == len(places)
    for place in places:
        before = text[: place.start()].rsplit("\n## ", 1)[-1]
        assert re.search(r"python -m align\.", before + place[0]), place["file"]
