"""Tables of a page, written by the program: what commands left in ``results/`` takes the place of what stood there.

A page says where a table belongs by two comments, which nobody sees where it is rendered::

    <!-- mlp/table.md -->
    (the table)
    <!-- end -->
"""

from __future__ import annotations

import re
from pathlib import Path

from wsgraph.files import replacing

PLACE = re.compile(r"(?P<begin><!-- (?P<file>[\w./-]+\.md) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def fill(page: Path, results: Path) -> dict[str, bool]:
    """Write what there is into its places; where nothing is, the page keeps what it has.

    Args:
        page: A Markdown file.
        results: The folder that files named on the page are relative to.

    Returns:
        By file, whether it was there.
    """
    found: dict[str, bool] = {}

    def replaced(place: re.Match[str]) -> str:
        if "<!--" in place[0].removeprefix(place["begin"]).removesuffix(place["end"]):
            raise ValueError(f"{page}: <!-- {place['file']} --> has no <!-- end --> before the next comment")
        path = results / place["file"]
        found[place["file"]] = path.is_file()
        return f"{place['begin']}\n{path.read_text().strip()}\n\n{place['end']}" if path.is_file() else place[0]

    text = PLACE.sub(replaced, page.read_text())
    if not found:
        raise ValueError(f"{page} has no place for a table: <!-- name/table.md -->, and <!-- end --> below")
    with replacing(page) as temporary:
        temporary.write_text(text)
    return found
