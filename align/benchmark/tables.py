"""Tables for people and for papers: the same cells as Markdown and as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

SPECIAL = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "±": r"$\pm$", "×": r"$\times$", "–": "--"}


def both(columns: Sequence[str], rows: Sequence[Sequence[str]], least: Sequence[Sequence[str]] = ()) -> dict[str, str]:
    """A table under ``md`` and under ``tex``.

    Args:
        columns: Its head.
        rows: Its cells, as many in every row as there are columns.
        least: Rows that stand apart, at the end.
    """
    for row in (*rows, *least):
        if len(row) != len(columns):
            raise ValueError(f"a row of {len(row)} cells in a table of {len(columns)} columns: {row}")
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows, *least]
    middle = [_tex(row) for row in rows] + ([r"\midrule", *(_tex(row) for row in least)] if least else [])
    head = [rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}", r"\toprule", _tex(columns), r"\midrule"]
    return {
        "md": "".join(f"| {' | '.join(line)} |\n" for line in lines),
        "tex": "\n".join([*head, *middle, r"\bottomrule", r"\end{tabular}", ""]),
    }


def _tex(row: Sequence[str]) -> str:
    return " & ".join("".join(SPECIAL.get(letter, letter) for letter in cell) for cell in row) + r" \\"
