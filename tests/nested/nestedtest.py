# SPDX-License-Identifier: GPL-2.0-or-later
"""What the nested tests share: TAP, and one host for several tests."""

import re
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


# Emulated kernels die now and then with an int3 that nobody put there, while
# they patch their own code on several processors: mostly in early boot, which
# the lab retries, and sometimes later. That says nothing about vmdefrag.
EMULATION = re.compile(r"Oops: int3|int3: 0000")


class DiedOfEmulation(Exception):
    """The host is gone, and why is known."""


def main(tests, set_up=None):
    """Run functions in order, with what `set_up` (a context manager) gives.

    A test's name is the first line of its docstring. When the host is lost, so
    are all that come after. A host that died of emulation is made anew, once a
    test (where each has its own) or once in all: said, and counted.
    """
    print(f"1..{len(tests)}", flush=True)
    started = time.monotonic()
    try:
        if set_up is None:
            rows = [_again(lambda t=t: _run_all([t], ()))[0] for t in tests]
        else:
            rows = _again(lambda: _with_host(tests, set_up, started))
    except (LabError, OSError) as e:
        _notes(str(e))
        print("Bail out! no host", flush=True)
        sys.exit(1)
    for i, (held, name) in enumerate(rows, 1):
        print(f"{'ok' if held else 'not ok'} {i} - {name}", flush=True)
    note(f"took {time.monotonic() - started:.1f} s")
    sys.exit(0 if all(held for held, _ in rows) else 1)


def _again(run):
    try:
        return run()
    except DiedOfEmulation as e:
        note(f"emulation killed the host, once more from the start: {e}")
    return run()


def _with_host(tests, set_up, started):
    with set_up() as given:
        note(f"host up after {time.monotonic() - started:.1f} s")
        return _run_all(tests, (given,))


def _run_all(tests, given):
    """-> [(held, name)]"""
    rows = []
    for test in tests:
        name = " ".join((test.__doc__ or test.__name__).split()).rstrip(".")
        note(f"{name} ...")
        started = time.monotonic()
        held = True
        try:
            test(*given)
        except Exception:               # noqa: B902 - a test must not end all
            text = traceback.format_exc()
            _notes(text)
            fatal = EMULATION.search(text + _console(given))
            if fatal:
                raise DiedOfEmulation(fatal.group(0)) from None
            held = False
        note(f"{time.monotonic() - started:.1f} s")
        rows.append((held, name))
    return rows


def _console(given):
    host = getattr(given[0], "host", None) if given else None
    return host.console if host else ""


def _notes(text):
    for line in text.splitlines():
        note(line)


def run_scenario(name, kernel=None):
    """A scenario that must hold; its log becomes notes. -> its document."""
    path = SCENARIOS / f"{name}.toml"
    out = scenario.Run(scenario.load(path), path, kernel).execute(note)
    if out["boot_failures"]:
        note(f"boots that died early: {out['boot_failures']}")
    if out["error"]:
        tail = "\n".join(out["console_tail"][-15:])
        raise AssertionError(f"{out['error']}\n{tail}")
    return out
