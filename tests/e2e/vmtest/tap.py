# SPDX-License-Identifier: GPL-2.0-or-later
"""Named test cases that print TAP.

    suite = Suite()

    @suite.case("a broken frame costs the session")
    def _(w): ...

    sys.exit(suite.run(World))

All cases of a program share one world, a context manager that is made before
the first: booting a guest is most of a case's time. With arguments only the
cases whose name holds one of them run.
"""

import contextlib
import sys
import time
import traceback


class Failed(Exception):
    """What a test expected did not come true."""


class Skipped(Exception):
    """Cannot be tested here, and why."""


def check(condition, what):
    if not condition:
        raise Failed(what)


def equal(got, want, what):
    if got != want:
        raise Failed(f"{what}: {got!r}, not {want!r}")


def holds(text, *parts):
    """Every part stands in the text."""
    for part in parts:
        if part not in text:
            raise Failed(f"no '{part}' in: {text.strip()[-1500:]}")


def within(seconds, predicate, what, interval=0.05):
    """Wait until predicate() is true -> (its value, seconds that it took)."""
    start = time.monotonic()
    while True:
        value = predicate()
        took = time.monotonic() - start
        if value:
            return value, took
        if took > seconds:
            raise Failed(f"{what}: not within {seconds:g} s")
        time.sleep(interval)


class Suite:
    def __init__(self):
        self._cases = []

    def case(self, name):
        def add(function):
            self._cases.append((name, function))
            return function
        return add

    def run(self, make_world=contextlib.nullcontext):
        wanted = sys.argv[1:]
        cases = [c for c in self._cases
                 if not wanted or any(w in c[0] for w in wanted)]
        print(f"1..{len(cases)}", flush=True)
        if not cases:
            return 1
        try:
            with make_world() as world:
                bad = self._run_cases(cases, world)
        except Exception:                   # the world itself is broken
            _comment(traceback.format_exc())
            done = getattr(self, "_done", 0)
            for i, (name, _) in enumerate(cases[done:], done + 1):
                print(f"not ok {i} - {name}", flush=True)
            return 1
        return 1 if bad else 0

    def _run_cases(self, cases, world):
        bad = 0
        for i, (name, function) in enumerate(cases, 1):
            start = time.monotonic()
            try:
                function(world)
                result, tail = "ok", ""
            except Skipped as e:
                result, tail = "ok", f" # SKIP {e}"
            except Exception as e:
                result, tail, bad = "not ok", "", bad + 1
                what = str(e) if isinstance(e, Failed) \
                    else traceback.format_exc()
                # last, where a log that is cut still shows it
                _after_failure(world)
                _comment(what)
            self._done = i
            print(f"{result} {i} - {name}{tail}", flush=True)
            _comment(f"{time.monotonic() - start:.1f} s")
        return bad


def _after_failure(world):
    """Say more, and put the world in order for the next case."""
    if hasattr(world, "after_failure"):
        try:
            _comment(world.after_failure() or "")
        except Exception:
            _comment(traceback.format_exc())


def _comment(text):
    for line in text.strip().splitlines():
        print(f"# {line}", flush=True)
