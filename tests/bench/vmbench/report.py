# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows as a table for people and as build/bench/NAME.json for programs."""

import json
import os

from .store import OUT

COLUMNS = ("", "median", "worst", "plain", "ratio", "unit", "goal", "")


def _number(value):
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
    return str(value)


def _cells(row):
    if row.absent:
        return (f"  {row.name}", "n/a", "", "", "", "", "", "")
    mark = {True: "met", False: "NOT MET", None: ""}[row.met]
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return (f"  {row.name}", _number(row.value),
            _number(row.worst) if len(row.runs) > 1 else "",
            "" if row.baseline is None else _number(row.baseline), ratio,
            row.unit, row.goal or "", mark)


def _widths(rows):
    table = [COLUMNS] + [_cells(r) for r in rows]
    return [max(len(line[i]) for line in table) for i in range(len(COLUMNS))]


def _line(cells, widths):
    # the name and the words to the left, numbers to the right
    out = [c.ljust(w) if i in (0, 5, 6, 7) else c.rjust(w)
           for i, (c, w) in enumerate(zip(cells, widths))]
    return "  ".join(out).rstrip()


def table(rows):
    widths, group, out = _widths(rows), None, []
    for row in rows:
        if row.group != group:
            group = row.group
            out += ["", _line((group,) + COLUMNS[1:],
                              [max(widths[0], len(group))] + widths[1:])]
        out.append(_line(_cells(row), widths))
    notes = dict.fromkeys(f"{r.name}: {r.note}" for r in rows if r.note)
    if notes:
        out += ["", *notes]
    return "\n".join(out)


def write(name, rows):
    """Complete or not at all -> the path."""
    path = OUT / f"{name}.json"
    temp = path.with_name(f".{path.name}.{os.getpid()}")
    OUT.mkdir(parents=True, exist_ok=True)
    with open(temp, "w", encoding="utf-8") as f:
        json.dump([o for r in rows for o in r.objects()], f, indent=1)
        f.write("\n")
    os.rename(temp, path)
    return path


def finish(name, rows, failures=()):
    """Print, write -> exit status: 1 when a row is not met or a run failed."""
    print(table(rows))
    path = write(name, rows)
    print(f"\n{os.path.relpath(path)}")
    bad = [r for r in rows if r.missed]
    for line in failures:
        print(f"failed: {line}")
    for r in bad:
        print(f"not met: {r.group}: {r.name}: {_number(r.value)} {r.unit}, "
              f"goal {r.goal}")
    goals = sum(r.met is not None for r in rows)
    print(f"{goals - len(bad)} of {goals} goals met")
    return 1 if bad or failures else 0
