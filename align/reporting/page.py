"""A page of one file: whatever it shows is inside, and nothing is fetched."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from wsgraph.files import replacing

KINDS = {".png": "image/png", ".svg": "image/svg+xml"}
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }}
h1, h2, p, td:first-child {{ overflow-wrap: anywhere }} h1 {{ line-height: 1.2 }}
table {{ border-collapse: collapse; margin: 1rem 0 }} th, td {{ padding: .3rem .9rem; text-align: right }}
th {{ vertical-align: bottom }} th:first-child, td:first-child {{ text-align: left; padding-left: .3rem }}
thead {{ border-bottom: 2px solid #222 }} tbody tr:nth-child(even), pre {{ background: #f4f4f4 }}
img, svg {{ max-width: 100%; height: auto }} pre {{ padding: 1rem; overflow-x: auto }}
figure {{ margin: 1rem 0 }} figure svg {{ width: 40rem; touch-action: pan-y }} figcaption {{ color: #555 }}
svg text {{ font-size: 11px; fill: #555 }} polyline {{ fill: none; stroke-width: 2 }}
.swatch {{ display: inline-block; width: .9em; height: .9em; margin-right: .4em; border-radius: .2em }}
@media (max-width: 34rem) {{
  body {{ font-size: 15px; margin: 1rem auto; padding: 0 .6rem }} h1 {{ font-size: 1.5rem }}
  th, td {{ padding: .3rem .35rem; font-size: .85rem }}
}}
</style></head><body><h1>{title}</h1>
{parts}
</body></html>
"""


def write_page(path: str | os.PathLike[str], title: str, parts: Iterable[str]) -> None:
    """Write a page; its parts are what the functions of this package give."""
    with replacing(path) as temporary:
        temporary.write_text(PAGE.format(title=escape(title), parts="\n".join(parts)), encoding="utf-8")


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; numbers are at the right, but for the first column."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    lines = ("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def folded(title: str, text: str) -> str:
    """A long text that is shown on request."""
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"


def picture(path: Path, alt: str) -> str:
    """A picture, inside the page."""
    content = base64.b64encode(path.read_bytes()).decode()
    return f'<p><img src="data:{KINDS[path.suffix]};base64,{content}" alt="{escape(alt)}"></p>'
