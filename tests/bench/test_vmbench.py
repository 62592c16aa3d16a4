#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The benchmarks' frame, without a guest (TAP)."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "lab")]

from vmbench import cost, report, rows, scene, store    # noqa: E402
from vmbench.rows import Row                            # noqa: E402


def run_of(**more):
    """A run without any cost, but for what is named."""
    names = [h[0] for h in cost.HARM] + [p[0] for p in cost.PRICE]
    return {**dict.fromkeys(names, 0), **more}


def goals():
    for value, goal, want in ((90, ">= 90", True), (89.9, ">= 90", False),
                              (3, "<= 3", True), (3.01, "<= 3", False),
                              (20, "< 20", False), (0, "== 0", True),
                              (1, "> 1", False), (-1, ">= -2", True),
                              (5, None, None), (None, None, None),
                              (None, "<= 3", False)):
        assert rows.met(value, goal) is want, (value, goal)
    try:
        rows.met(1, "about 1")
    except ValueError:
        return
    raise AssertionError("a goal that is none was taken")


def medians():
    assert rows.median([3, 1, 2]) == 2
    assert rows.median([4, 1, 2, 3]) == 2.5
    assert rows.median([]) is None
    assert rows.worst([95, 91, 99], ">= 90") == 91
    assert rows.worst([1, 3, 2], "<= 3") == 3
    assert rows.worst([0, -2, 1], "== 0") == -2
    assert rows.worst([1, 3, 2], None) == 3


def objects():
    keys = ["name", "value", "unit", "baseline", "goal", "met"]
    out = Row("6.12 2g x", "share", "%", [91, 97, 95], baseline=[70, 80, 75],
              goal=">= 96").objects()
    assert [list(o) for o in out] == [keys, keys]
    assert out[0] == {"name": "6.12 2g x: share", "value": 95, "unit": "%",
                      "baseline": 75, "goal": ">= 96", "met": False}
    assert out[1]["value"] == 91 and out[1]["met"] is None
    assert len(Row("g", "one run", "ms", [1]).objects()) == 1


def absent():
    row = Row.na("g", "x", "ms", "6.1 has no mTHP")
    assert not row.missed and row.objects()[0]["value"] is None
    assert "n/a" in report.table([row])


def unmeasured():
    assert Row("g", "x", "ms", [], goal="<= 3").missed
    assert not Row("g", "x", "ms", []).missed


def harm():
    def reclaimed(ours, plain):
        (row,) = [r for r in cost.harm_rows(
            "g", [run_of(reclaimed=ours)], [run_of(reclaimed=plain)])
            if r.name == "harm: reclaimed"]
        return row.met
    floor = dict((h[0], h[2]) for h in cost.HARM)["reclaimed"]
    assert reclaimed(floor, 0) and not reclaimed(floor + 1, 0)
    assert reclaimed(105000, 100000) and not reclaimed(105001, 100000)
    assert all(r.missed for r in cost.harm_rows("g", [], [])), \
        "harm that nobody measured was met"


def costs():
    def snap(n, psi):
        return {"vmstat": {"pgsteal_kswapd": n, "pgsteal_direct": n,
                           "allocstall_normal": n, "allocstall_movable": n,
                           "workingset_refault_file": n, "pswpout": n,
                           "nr_file_pages": 100 - n,
                           "compact_migrate_scanned": n,
                           "compact_free_scanned": n},
                "cpu_ms": {"kcompactd": 2.0 * n, "kswapd": n, "agent": None},
                "psi_ms": psi, "words": 7 * n}
    c = cost.between(snap(0, 0), snap(10, 5), writer_ms=3)
    assert c["reclaimed"] == 20 and c["allocstall"] == 20
    assert c["refaults"] == c["swapped"] == 10
    assert c["page cache lost"] == 10 and c["kpageflags words read"] == 70
    assert c["compaction CPU in all"] == 23 and c["agent CPU"] == 0
    none = cost.between(snap(0, None), snap(1, None))
    assert none["memory stalls of tasks (PSI some)"] is None


def resumed():
    folder = tempfile.mkdtemp()
    store.OUT, old = Path(folder), store.OUT
    try:
        s = store.Store("t", "key")
        assert s.get("6.1", "2g", 1, "a") is None
        s.expect("6.1", release="6.1.1")
        s.put("6.1", "2g", 1, "a", {"x": 1})
        again = store.Store("t", "key")
        again.expect("6.1", release="6.1.1")
        assert again.get("6.1", "2g", 1, "a")["x"] == 1
        assert len(again.all("6.1", "2g", (1, 2), "a")) == 1
        again.expect("6.1", release="6.1.2")
        assert again.get("6.1", "2g", 1, "a") is None, "another kernel's"
        assert store.Store("t", "key2").get("6.1", "2g", 1, "a") is None
    finally:
        store.OUT = old
        shutil.rmtree(folder)


def written():
    folder = tempfile.mkdtemp()
    report.OUT, old = Path(folder), report.OUT
    try:
        path = report.write("t", [Row("g", "x", "ms", [1], goal="<= 3")])
        with open(path, encoding="utf-8") as f:
            assert json.load(f)[0]["met"] is True
        assert os.listdir(folder) == ["t.json"]
    finally:
        report.OUT = old
        shutil.rmtree(folder)


def parsers():
    assert scene.pcp_pages("Node 0, zone DMA32\n    cpu: 0\n"
                           "              count:    78\n"
                           "              count: 2\n  count 5 6\n") == 80
    assert scene.cpu_a_look_us([0, 2000, 2000, 5000]) == [2.0, 3.0]


CASES = (("a goal decides what is met", goals),
         ("median and worst run", medians),
         ("objects have exactly six keys", objects),
         ("what a kernel cannot have is n/a, not missed", absent),
         ("what was not measured does not meet a goal", unmeasured),
         ("harm: 5 % or the floor, whichever is larger", harm),
         ("costs are sums of the kernel's counters", costs),
         ("runs are resumed for the same tree and kernel only", resumed),
         ("the file is complete or absent", written),
         ("parsers", parsers))


def main():
    print(f"1..{len(CASES)}")
    failed = 0
    for n, (name, test) in enumerate(CASES, 1):
        try:
            test()
        except AssertionError as e:
            failed += 1
            print(f"# {e!r}")
            print(f"not ok {n} - {name}")
        else:
            print(f"ok {n} - {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
