# SPDX-License-Identifier: GPL-2.0-or-later
"""KVM or emulation? KVM only where a guest really runs, which is probed."""

import os
import subprocess

from . import programs
from .util import LabError

KVM = ["-accel", "kvm", "-cpu", "host"]
TCG = ["-accel", "tcg,thread=multi", "-cpu", "max"]

_choice = None


def choose():
    """(name, QEMU arguments, reason); decided once per process.

    $VMLAB_ACCEL = kvm or tcg overrides the probe.
    """
    global _choice
    if _choice is None:
        _choice = _decide()
    return _choice


def _decide():
    forced = os.environ.get("VMLAB_ACCEL")
    if forced in ("kvm", "tcg"):
        return forced, KVM if forced == "kvm" else TCG, "VMLAB_ACCEL"
    if forced:
        raise LabError(f"VMLAB_ACCEL={forced}: must be kvm or tcg")
    probe = programs.probe_program("kvm-runs-guest")
    r = subprocess.run([str(probe)], stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       timeout=30)
    why = r.stdout.decode(errors="replace").strip()
    if r.returncode == 0:
        return "kvm", KVM, why
    if r.returncode == 77:
        return "tcg", TCG, why
    raise LabError(f"kvm-runs-guest: exit {r.returncode}: {why}")
