# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures with goals. Pure."""

import operator
import re

GOAL = re.compile(r"^(>=|<=|==|<|>) (-?\d+(?:\.\d+)?)$")
COMPARE = {">=": operator.ge, "<=": operator.le, "==": operator.eq,
           "<": operator.lt, ">": operator.gt}


def median(values):
    """The middle one; of an even number the mean of the two middle ones."""
    v = sorted(values)
    if not v:
        return None
    mid = len(v) // 2
    return v[mid] if len(v) % 2 else (v[mid - 1] + v[mid]) / 2


def met(value, goal):
    """Is `value` within `goal` ('>= 90')? None where there is none of both.

    A goal without a value is not met: what was not measured was not reached.
    """
    if goal is None:
        return None
    m = GOAL.match(goal)
    if not m:
        raise ValueError(f"goal '{goal}' is not like '>= 90'")
    return value is not None and COMPARE[m.group(1)](value, float(m.group(2)))


def worst(values, goal):
    """The run that is farthest from the goal; without a goal, the largest."""
    if not values:
        return None
    if goal and goal.startswith("=="):
        target = float(GOAL.match(goal).group(2))
        return max(values, key=lambda v: abs(v - target))
    return min(values) if goal and goal.startswith(">") else max(values)


def rounded(value):
    """Figures for people and files: no 17 digits."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else round(value, 3)
    return value


class Row:
    """One figure. `runs` are those whose median is the value."""

    def __init__(self, group, name, unit, runs, *, baseline=None, goal=None,
                 note=None):
        self.group, self.name, self.unit = group, name, unit
        self.runs = [r for r in runs if r is not None]
        self.value = rounded(median(self.runs))
        self.goal = goal
        self.note = note        # why n/a, or how it was measured
        self.absent = False
        self.baseline = rounded(median([b for b in baseline
                                        if b is not None])
                                if isinstance(baseline, (list, tuple))
                                else baseline)
        self.worst = rounded(worst(self.runs, goal))
        self.met = met(self.value, goal)

    @classmethod
    def na(cls, group, name, unit, why):
        """A row that this kernel cannot have: neither met nor missed."""
        row = cls(group, name, unit, [], note=why)
        row.absent = True
        return row

    @property
    def missed(self):
        return self.met is False

    @property
    def ratio(self):
        """value / baseline, where that means something."""
        if self.value is None or not self.baseline or self.baseline < 0 \
                or self.value < 0:
            return None
        return self.value / self.baseline

    def objects(self):
        """What goes into the file: the row, and its worst run beside it."""
        label = f"{self.group}: {self.name}"
        out = [{"name": label, "value": self.value, "unit": self.unit,
                "baseline": self.baseline, "goal": self.goal,
                "met": self.met}]
        if len(self.runs) > 1:
            out.append({"name": f"{label} (worst of {len(self.runs)})",
                        "value": self.worst, "unit": self.unit,
                        "baseline": self.baseline, "goal": None,
                        "met": None})
        return out
