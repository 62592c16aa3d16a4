#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What `make install` puts where, and that words and programs agree: default
configuration, man pages, units, completion."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from vmtest import TOP
from vmtest.tap import Suite, check, equal
from vmlab.util import build_dir

TOP = Path(TOP)
DAEMON = build_dir() / "daemon" / "vmdefragd"
CTL = build_dir() / "daemon" / "vmdefragctl"
AGENT = build_dir() / "guest-agent" / "vmdefrag-agent"
EXPOSURE_MAX = 3.5
suite = Suite()


def run(*argv, **keywords):
    r = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       timeout=60, cwd=TOP, **keywords)
    return r.returncode, r.stdout.decode(errors="replace")


class World(contextlib.ExitStack):
    def __enter__(self):
        super().__enter__()
        self.dir = Path(self.enter_context(tempfile.TemporaryDirectory()))
        self.root = self.dir / "root"
        rc, out = run("make", "-s", "install", f"DESTDIR={self.root}",
                      f"BUILD={os.environ.get('BUILD', 'build')}")
        equal(rc, 0, f"make install: {out}")
        return self


@suite.case("install: programs, units, configuration and pages are there")
def _(w):
    wanted = """usr/sbin/vmdefragd usr/bin/vmdefragctl usr/sbin/vmdefrag-agent
        usr/lib/systemd/system/vmdefragd.service
        usr/lib/systemd/system/vmdefragd.socket
        usr/lib/systemd/system/vmdefrag-agent.service
        usr/lib/systemd/system-preset/90-vmdefrag.preset
        usr/lib/udev/rules.d/70-vmdefrag-agent.rules
        usr/lib/sysusers.d/vmdefrag.conf usr/lib/tmpfiles.d/vmdefrag.conf
        usr/share/bash-completion/completions/vmdefragctl
        etc/vmdefrag/vmdefragd.conf etc/vmdefrag/agent.conf
        usr/share/man/man8/vmdefragd.8 usr/share/man/man8/vmdefrag-agent.8
        usr/share/man/man1/vmdefragctl.1 usr/share/man/man5/vmdefragd.conf.5
        usr/share/man/man5/vmdefrag-agent.conf.5""".split()
    there = sorted(str(p.relative_to(w.root)) for p in w.root.rglob("*")
                   if p.is_file())
    equal(there, sorted(wanted), "installed files")


@suite.case("install: a configuration that is there is left alone")
def _(w):
    conf = w.root / "etc/vmdefrag/vmdefragd.conf"
    conf.write_text("[policy]\nMode=off\n", encoding="ascii")
    rc, out = run("make", "-s", "install-host", f"DESTDIR={w.root}",
                  f"BUILD={os.environ.get('BUILD', 'build')}")
    equal(rc, 0, out)
    equal(conf.read_text(encoding="ascii"), "[policy]\nMode=off\n", "it")


def defaults(program, shipped, w):
    """All defaults are in the shipped file, and are what the program says."""
    text = (TOP / "systemd" / shipped).read_text(encoding="ascii")
    rc, dump = run(program, "--config", "/dev/null", "--dump-config")
    equal(rc, 0, dump)
    keys = [line for line in dump.splitlines() if "=" in line]
    check(len(keys) > 8, f"hardly any keys: {dump}")
    commented = [line[1:] for line in text.splitlines()
                 if re.match(r"#[A-Za-z]+=", line)]
    equal(commented, keys, f"defaults in {shipped}")
    bare = w.dir / shipped
    bare.write_text(re.sub(r"^#(?=[A-Za-z]+=)", "", text, flags=re.M),
                    encoding="ascii")
    rc, out = run(program, "--config", bare, "--check-config")
    equal(rc, 0, f"{shipped} with its defaults taken out of comments: {out}")
    equal(run(program, "--config", bare, "--dump-config")[1], dump, "dump")
    rc, out = run(program, "--config", TOP / "systemd" / shipped,
                  "--check-config")
    equal(rc, 0, f"{shipped} as shipped: {out}")


@suite.case("the shipped configurations hold every default, commented out")
def _(w):
    defaults(DAEMON, "vmdefragd.conf", w)
    defaults(AGENT, "agent.conf", w)


@suite.case("drop-ins are read after the file, by name")
def _(w):
    conf = w.dir / "d.conf"
    parts = w.dir / "d.conf.d"
    parts.mkdir()
    conf.write_text("[policy]\nLease=40s\nCooldown=3s\n", encoding="ascii")
    (parts / "20.conf").write_text("[policy]\nLease=60s\n", encoding="ascii")
    (parts / "10.conf").write_text("[policy]\nLease=50s\n", encoding="ascii")
    (parts / "30.txt").write_text("rubbish", encoding="ascii")
    out = run(DAEMON, "--config", conf, "--dump-config")[1]
    check("Lease=1min" in out and "Cooldown=3s" in out, out)
    (parts / "40.conf").write_text("[policy]\nLeese=1s\n", encoding="ascii")
    rc, out = run(DAEMON, "--config", conf, "--check-config")
    equal(rc, 78, out)
    check("40.conf" in out and "Leese" in out and "2" in out, out)


@suite.case("man pages: no complaint of mandoc, every option, command and key")
def _(w):
    pages = sorted((TOP / "man").glob("*.[0-9]"))
    equal(len(pages), 5, "pages")
    rc, out = run("mandoc", "-T", "lint", "-W", "warning", *pages)
    equal((rc, out), (0, ""), "mandoc")

    def text(page):
        raw = run("mandoc", "-T", "ascii", TOP / "man" / page)[1]
        return re.sub(r".\x08", "", raw)

    def options(program):
        return set(re.findall(r"--[a-z][a-z-]+", run(program, "--help")[1]))
    for program, page in ((DAEMON, "vmdefragd.8"), (CTL, "vmdefragctl.1"),
                          (AGENT, "vmdefrag-agent.8")):
        missing = [o for o in options(program) if o not in text(page)]
        equal(missing, [], f"options that {page} lacks")
    verbs = re.findall(r"^  ([a-z][a-z-]+) ", run(CTL, "--help")[1], re.M)
    check(len(verbs) > 9, f"verbs: {verbs}")
    equal([v for v in verbs if v not in text("vmdefragctl.1")], [], "commands")
    completion = (TOP / "systemd/vmdefragctl.bash-completion").read_text()
    equal([v for v in verbs if v not in completion], [], "completed commands")
    for program, page in ((DAEMON, "vmdefragd.conf.5"),
                          (AGENT, "vmdefrag-agent.conf.5")):
        dump = run(program, "--config", "/dev/null", "--dump-config")[1]
        keys = re.findall(r"^([A-Za-z]+)=", dump, re.M)
        equal([k for k in keys if k not in text(page)], [],
              f"keys that {page} lacks")


@suite.case("units: systemd finds no fault, and little exposure")
def _(w):
    host = w.dir / "host"       # with what a unit takes from the system
    shutil.copytree(w.root, host)
    (host / "bin").mkdir()
    shutil.copy("/bin/kill", host / "bin/kill")
    units = host / "usr/lib/systemd/system"
    for name in ("vmdefragd.service", "vmdefragd.socket",
                 "vmdefrag-agent.service"):
        rc, out = run("systemd-analyze", "verify", "--recursive-errors=no",
                      "--man=no", f"--root={host}", units / name)
        equal((rc, out), (0, ""), f"systemd-analyze verify {name}")
    rc, out = run("systemd-analyze", "security", "--offline=yes",
                  "--no-pager", units / "vmdefragd.service")
    found = re.search(r"exposure level[^:]*: ([0-9.]+)", out)
    check(found, f"systemd-analyze security: {out[-600:]}")
    check(float(found.group(1)) <= EXPOSURE_MAX,
          f"exposure {found.group(1)}, goal {EXPOSURE_MAX}:\n{out}")


@suite.case("completion: commands, VMs' verbs and their options")
def _(w):
    script = f"""
        . {TOP}/systemd/vmdefragctl.bash-completion
        vmdefragctl() {{ echo '  "name": "web1",'; }}
        try() {{
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
            _vmdefragctl; echo "${{COMPREPLY[*]}}"
        }}
        try vmdefragctl exp
        try vmdefragctl compact ''
        try vmdefragctl compact web1 --backend hu
        try vmdefragctl pause ''
    """
    rc, out = run("bash", "-c", script)
    equal(rc, 0, out)
    lines = out.splitlines()
    equal(lines[0], "explain", "a command")
    check("web1" in lines[1] and "--blocks" in lines[1], lines[1])
    equal(lines[2], "hugetlb", "a backend")
    check("--all" in lines[3], lines[3])


if __name__ == "__main__":
    sys.exit(suite.run(World))
