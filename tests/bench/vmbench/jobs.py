# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots. One serves many runs, where the state can be rebuilt in between.

A job's body is called with the guest and the job; it asks `job.todo(seed,
variant)` before each run and hands the result to `job.save()`. What is in the
store already is not done again; nothing is booted where all is there. A body
that fails is called once more, with a new guest: it then does what is left.
"""

import os
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

from vmlab import accel, kernels
from vmlab.guest import Guest
from vmlab.util import LabError

TRIES = 2


class Job:
    """`runs`: what the body will save, as [(seed, variant)].

    `alone`: measures CPU time of a guest that is idle otherwise. No second
    guest of ours runs then, and this one goes before all else on the machine:
    a guest takes the time that its CPU waited for a real one for its own. A
    guest that is busy would starve the rest of the machine.
    """

    def __init__(self, kernel, shape, runs, body, alone=False, **guest):
        self.kernel, self.shape, self.runs = kernel, shape, list(runs)
        self.body, self.alone, self.guest = body, alone, guest
        self.store = None
        self.errors = []

    def __str__(self):
        what = sorted({v for _, v in self.runs})
        return f"{self.kernel} {self.shape}: {', '.join(what)}"

    def todo(self, seed, variant):
        return not self.store.get(self.kernel, self.shape, seed, variant)

    def left(self):
        return [r for r in self.runs if self.todo(*r)]

    def save(self, seed, variant, doc):
        self.store.put(self.kernel, self.shape, seed, variant, doc)
        say(f"  {self.kernel} {self.shape} seed {seed}: {variant}")


_say = threading.Lock()


def say(text):
    with _say:
        print(text, flush=True)


def _prefer(pid):
    """Before all else. Nice values do not do: where the kernel groups tasks
    by session they count within the session only."""
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            os.sched_setscheduler(int(task), os.SCHED_RR, os.sched_param(1))
    except OSError as e:
        say(f"  a guest could not go before all else: {e}")


def _try(job):
    with Guest(kernel=job.kernel, seed=job.runs[0][0], **job.guest) as g:
        if job.alone:
            _prefer(g.pid)
        job.body(g, job)
        bad = g.kernel_complaints()
        if bad:
            say(f"  {job}: the guest's kernel complains: {bad[0]}")


def _run(job):
    for i in range(TRIES):
        if not job.left():
            return
        try:
            _try(job)
        except (LabError, OSError, ValueError, KeyError) as e:
            text = str(e) if isinstance(e, LabError) else \
                traceback.format_exc()
            job.errors.append(text.splitlines()[0])
            say(f"  {job}: try {i + 1} of {TRIES} failed: {text}")


def _prepare(jobs, store):
    """Kernels before threads: all of them would fetch at once."""
    name = accel.choose()[0]
    for kernel in dict.fromkeys(j.kernel for j in jobs):
        meta = kernels.get(kernel)[1]
        store.expect(kernel, release=meta["release"], accel=name)
    return name


def workers():
    """Guests at a time: one a core, since each keeps about one busy."""
    return max(1, int(os.environ.get("BENCH_JOBS") or os.cpu_count() or 1))


def run_all(jobs, store):
    """Do what is not in the store yet -> lines about what failed."""
    started = time.monotonic()
    name = _prepare(jobs, store)
    for job in jobs:
        job.store = store
    total = sum(len(j.runs) for j in jobs)
    left = [j for j in jobs if j.left()]
    store.reused = total - sum(len(j.left()) for j in left)
    say(f"{total} runs in {len(jobs)} boots ({name}), {store.reused} of them "
        f"from build/bench/runs/{store.key}")
    for job in left:
        if job.alone:
            _run(job)
    with ThreadPoolExecutor(workers()) as pool:
        list(pool.map(_run, [j for j in left if not j.alone]))
    say(f"took {time.monotonic() - started:.0f} s")
    return [f"{j}: {j.errors[-1]}" for j in jobs if j.left() and j.errors]
