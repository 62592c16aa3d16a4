# SPDX-License-Identifier: GPL-2.0-or-later
"""What the nested tests share: TAP, and one host for several tests."""

import sys
import time
import traceback
from pathlib import Path

sys.dont_write_bytecode = True
TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "lab"))

from vmlab import scenario                              # noqa: E402
from vmlab.util import LabError                         # noqa: E402

SCENARIOS = TOP / "tests" / "lab" / "scenarios"


def note(text):
    print(f"# {text}", flush=True)


def near(a, b, percent, what):
    """Equal within so many percent, or within 64 KiB where both are small."""
    if abs(a - b) > max(a, b) * percent / 100 and abs(a - b) > 64:
        raise AssertionError(f"{what}: {a} and {b} differ by more than "
                             f"{percent} %")


def expect(held, what):
    if not held:
        raise AssertionError(what)


def main(tests, set_up=None):
    """Run functions in order, with what `set_up` (a context manager) gives.

    A test's name is the first line of its docstring. When the host is lost, so
    are all that come after.
    """
    print(f"1..{len(tests)}", flush=True)
    started = time.monotonic()
    bad = 0
    try:
        if set_up is None:
            bad = _run_all(tests, ())
        else:
            with set_up() as given:
                note(f"host up after {time.monotonic() - started:.1f} s")
                bad = _run_all(tests, (given,))
    except (LabError, OSError) as e:
        for line in str(e).splitlines():
            note(line)
        print("Bail out! no host", flush=True)
        bad = 1
    note(f"took {time.monotonic() - started:.1f} s")
    sys.exit(1 if bad else 0)


def _run_all(tests, given):
    bad = 0
    for i, test in enumerate(tests, 1):
        name = (test.__doc__ or test.__name__).splitlines()[0].rstrip(".")
        started = time.monotonic()
        try:
            test(*given)
            verdict = "ok"
        except Exception:               # noqa: B902 - a test must not end all
            for line in traceback.format_exc().splitlines():
                note(line)
            verdict, bad = "not ok", bad + 1
        note(f"{time.monotonic() - started:.1f} s")
        print(f"{verdict} {i} - {name}", flush=True)
    return bad


def run_scenario(name, kernel=None):
    """A scenario that must hold; its log becomes notes. -> its document."""
    path = SCENARIOS / f"{name}.toml"
    out = scenario.Run(scenario.load(path), path, kernel).execute(note)
    if out["boot_failures"]:
        note(f"boots that died early: {out['boot_failures']}")
    if out["error"]:
        for line in out["console_tail"][-15:]:
            note(line)
        raise AssertionError(out["error"])
    return out
