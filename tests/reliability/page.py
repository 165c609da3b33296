"""docs/reliability.md, whose tables are written by the commands that measure them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "reliability.md"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_section(name: str, text: str) -> None:
    """Put the text between the page's marks ``<!-- name -->`` and ``<!-- /name -->``."""
    marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    page = PAGE.read_text()
    if not marks.search(page):
        raise ValueError(f"{PAGE} has no section <!-- {name} -->")
    PAGE.write_text(marks.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page))
