# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of single runs, so that an interrupted benchmark goes on.

    build/bench/runs/COMMIT[-DIFF]/BENCH/KERNEL_SHAPE_SEED_VARIANT.json

DIFF is a hash of what differs from the commit, files that git does not know
among it: figures of one tree are never taken for those of another. Nor are
those of another release of the kernel, or another accelerator: both are in
the document and looked at.
"""

import hashlib
import json
import os
import re
import subprocess
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
OUT = ROOT / "build" / "bench"


def _git(*args):
    return subprocess.run(["git", "-C", str(ROOT), *args], check=True,
                          stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout


def tree_key():
    """COMMIT or COMMIT-DIFF; 'nogit' where there is no repository."""
    try:
        commit = _git("rev-parse", "--short=12", "HEAD").decode().strip()
        diff = _git("diff", "--binary", "HEAD")
        new = _git("ls-files", "-z", "--others", "--exclude-standard")
    except (OSError, subprocess.CalledProcessError):
        return "nogit"
    if not diff and not new:
        return commit
    h = hashlib.sha256(diff)
    for name in sorted(filter(None, new.split(b"\0"))):
        h.update(name + b"\0")
        try:
            h.update((ROOT / os.fsdecode(name)).read_bytes())
        except OSError:
            pass
    return f"{commit}-{h.hexdigest()[:12]}"


class Store:
    def __init__(self, bench, key=None):
        self.key = key or tree_key()
        self.dir = OUT / "runs" / self.key / bench
        self.dir.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self.reused = self.made = 0
        self._same = {}         # kernel -> what a document must say

    def expect(self, kernel, **facts):
        """Documents of this kernel that say otherwise are not reused."""
        self._same[kernel] = facts

    def _path(self, kernel, shape, seed, variant):
        name = f"{kernel}_{shape}_{seed}_{variant}"
        if not re.fullmatch(r"[\w.-]+", name):
            raise ValueError(f"'{name}' is no file name")
        return self.dir / f"{name}.json"

    def get(self, kernel, shape, seed, variant):
        """The document of that run, or None."""
        try:
            with open(self._path(kernel, shape, seed, variant),
                      encoding="utf-8") as f:
                doc = json.load(f)
        except (OSError, ValueError):
            return None
        facts = self._same.get(kernel, {})
        return doc if all(doc.get(k) == v for k, v in facts.items()) else None

    def put(self, kernel, shape, seed, variant, doc):
        path = self._path(kernel, shape, seed, variant)
        temp = path.with_name(f".{path.name}.{os.getpid()}")
        doc = dict(doc, **self._same.get(kernel, {}))
        with self._lock:
            with open(temp, "w", encoding="utf-8") as f:
                json.dump(doc, f, indent=1)
                f.write("\n")
            os.rename(temp, path)
            self.made += 1

    def all(self, kernel, shape, seeds, variant):
        """Documents of these seeds, without those that failed."""
        docs = (self.get(kernel, shape, s, variant) for s in seeds)
        return [d for d in docs if d]
