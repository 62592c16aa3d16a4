# SPDX-License-Identifier: GPL-2.0-or-later
"""Scenarios of the nested lab: one TOML file each.

TOML, since it is readable, has comments and types, and Python reads it by
itself: no parser of ours, and no program that a reader has to run in his head.
README.md describes the sections and steps.

A step is a table with `do`; each is a method do_NAME of Steps below, its other
keys are the method's arguments. Expectations are comparisons over the samples
that steps took; only names, numbers, arithmetic, comparisons, and/or/not are
understood (Evaluator).
"""

import ast
import operator
import threading
import re
import time
import tomllib

from . import recipes
from .host import Host
from .hostdaemon import HostDaemon
from .kvmguest import KvmGuest
from .nodeview import parse_words
from .util import LabError, tail, wait_for

# Emulated kernels die now and then with an int3 that nobody put there, while
# they patch their own code on several processors: mostly in early boot, which
# the lab retries, and sometimes later. That says nothing about vmdefrag.
EMULATION = re.compile(r"Oops: int3|int3: 0000")


def died_of_emulation(text):
    """What a host's console said of it, or None."""
    found = EMULATION.search(text)
    return found.group(0) if found else None


SECTIONS = {"title", "why", "host", "pool", "guest", "daemon", "step",
            "expect"}
HOST_KEYS = {"kernel", "nodes", "smp", "init", "cmdline", "sysctl", "thp",
             "timeline_s"}
GUEST_KEYS = {"name", "kernel", "mem", "smp", "node", "backing", "start",
              "prealloc", "agent", "agent_args", "free_page_reporting",
              "modules", "cmdline", "later", "base_pages"}
TIMELINE_S = 2.0


# ---------------------------------------------------------------- reading

def load(path):
    """A checked scenario."""
    try:
        with open(path, "rb") as f:
            doc = tomllib.load(f)
    except (OSError, tomllib.TOMLDecodeError) as e:
        raise LabError(f"{path}: {e}") from e
    _known(path, "", doc, SECTIONS)
    _known(path, "[host]", doc.setdefault("host", {}), HOST_KEYS)
    for g in doc.setdefault("guest", []):
        _known(path, "[[guest]]", g, GUEST_KEYS)
        if not str(g.get("name", "")).isidentifier():
            raise LabError(f"{path}: a guest's name must be a word")
    for s in doc.setdefault("step", []):
        if not hasattr(Steps, "do_" + str(s.get("do")).replace("-", "_")):
            raise LabError(f"{path}: no step '{s.get('do')}'")
    for e in doc.setdefault("expect", []):
        _known(path, "[[expect]]", e, {"that", "why"})
        Evaluator({}).check(e.get("that", ""))
    return doc


def _known(path, where, table, keys):
    odd = set(table) - keys
    if odd:
        raise LabError(f"{path}: {where} has unknown keys: "
                       + ", ".join(sorted(odd)))


class Evaluator:
    """Expressions over nested dicts: 'after.a.pages_2m > 0.9 * before.a...'."""

    BINARY = {ast.Add: operator.add, ast.Sub: operator.sub,
              ast.Mult: operator.mul, ast.Div: operator.truediv}
    COMPARE = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
               ast.GtE: operator.ge, ast.Eq: operator.eq,
               ast.NotEq: operator.ne}
    FUNCTIONS = {"abs": abs, "min": min, "max": max}

    def __init__(self, names):
        self._names = names

    def check(self, text):
        """Raise on what is not understood, whatever the names stand for."""
        try:
            tree = ast.parse(text, mode="eval")
        except SyntaxError as e:
            raise LabError(f"'{text}': {e.msg}") from e
        allowed = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.USub, ast.Not,
                   ast.BoolOp, ast.And, ast.Or, ast.Compare, ast.Attribute,
                   ast.Name, ast.Constant, ast.Load, ast.Call,
                   *self.BINARY, *self.COMPARE)
        for node in ast.walk(tree):
            if not isinstance(node, allowed):
                raise LabError(f"'{text}': {type(node).__name__} is not "
                               "understood here")
        return tree

    def value(self, text):
        try:
            return self._value(self.check(text).body)
        except KeyError as e:
            raise LabError(f"'{text}': there is no {e.args[0]}") from e

    def operands(self, text):
        """{text: value} of each dotted name in an expression."""
        found = {}
        for node in ast.walk(self.check(text)):
            if isinstance(node, ast.Attribute):
                name = ast.unparse(node)
                value = self._value(node)
                if not isinstance(value, dict):
                    found[name] = value
        return found

    def _value(self, n):
        if isinstance(n, ast.Constant):
            return n.value
        if isinstance(n, ast.Name):
            return self._names[n.id]
        if isinstance(n, ast.Attribute):
            return self._value(n.value)[n.attr]
        if isinstance(n, ast.BinOp):
            return self.BINARY[type(n.op)](self._value(n.left),
                                           self._value(n.right))
        if isinstance(n, ast.UnaryOp):
            v = self._value(n.operand)
            return -v if isinstance(n.op, ast.USub) else not v
        if isinstance(n, ast.BoolOp):
            values = (self._value(v) for v in n.values)
            return all(values) if isinstance(n.op, ast.And) else any(values)
        if isinstance(n, ast.Call):
            return self.FUNCTIONS[n.func.id](*map(self._value, n.args))
        left = self._value(n.left)
        for op, right in zip(n.ops, n.comparators):
            right = self._value(right)
            if not self.COMPARE[type(op)](left, right):
                return False
            left = right
        return True


# ---------------------------------------------------------------- samples

def sample_guest(g):
    """What the host knows of a guest, and the guest of itself."""
    stats = g.kvm_stats()
    debugfs = g.kvm_debugfs()
    memory = g.memory()
    doc = {**stats, "debugfs": debugfs, "rss_kib": memory["smaps"]["rss_kib"],
           "huge_kib": memory["smaps"]["huge_kib"]}
    for n, row in memory["nodes"].items():
        doc[f"node{n}"] = {**row, "numa_maps_kib":
                           memory["numa_maps"].get(n, 0)}
    doc["guest_free_2m"] = g.free_2m_blocks()
    doc["guest_free_kib"] = g.meminfo()["MemFree"]
    return doc


def sample_host(host):
    doc = {}
    for n in host.node_ids():
        doc[f"node{n}"] = {"free_2m": host.node_free_2m(n),
                           "free_kib": host.node_meminfo(n)["MemFree"],
                           "pool": host.pool(n)}
    doc["reserved"] = host.pool_reserved()
    return doc


class Timeline(threading.Thread):
    """KVM's page counts of all guests, from debugfs, every so often.

    Not through QMP: a stuck QEMU would stop it.
    """

    CMD = ("cd /sys/kernel/debug/kvm && for d in *-*; do [ -d $d ] && echo "
           "pid ${d%%-*} pages_4k $(cat $d/pages_4k) pages_2m "
           "$(cat $d/pages_2m) pages_1g $(cat $d/pages_1g); done")

    def __init__(self, host, started, every):
        super().__init__(daemon=True)
        self.rows = {}
        self._host, self._zero, self._every = host, started, every
        self._end = threading.Event()

    def run(self):
        while not self._end.wait(self._every):
            try:
                out = self._host.sh(self.CMD, 30)[1]
                names = {g.pid: g.name for g in
                         list(self._host.guests.values())}
            except LabError:
                continue            # the host is going away, or is busy
            now = round(time.monotonic() - self._zero, 2)
            for line in out.splitlines():
                try:
                    row = parse_words(line)
                except ValueError:
                    continue
                name = names.get(row.pop("pid", None))
                if name:
                    self.rows.setdefault(name, []).append({"s": now, **row})

    def stop(self):
        self._end.set()
        self.join(40)


# ---------------------------------------------------------------- running

class Steps:
    """What a scenario can do. Method names are the verbs."""

    def __init__(self, run):
        self.run, self.host = run, run.host
        self.guests, self.samples = run.guests, run.samples

    def guest(self, name):
        if name not in self.guests:
            raise LabError(f"no guest '{name}'")
        return self.guests[name]

    def do_sample(self, name):
        s = sample_host(self.host)
        for g in list(self.host.guests.values()):
            s[g.name] = sample_guest(g)
        if self.run.daemon:
            s["daemon"] = self.run.daemon_figures()
        s["s"] = self.run.now()
        self.samples[name] = s

    def do_sleep(self, seconds):
        time.sleep(seconds)

    def do_host(self, run, timeout=120):
        return {"output": self.host.check(run, timeout)}

    def do_guest(self, guest, run, timeout=120, background=False):
        g = self.guest(guest)
        if background:
            return {"pid": g.spawn(run)}
        return {"output": g.check(run, timeout)}

    def do_start(self, guest, base_pages=False):
        self.run.start_guest(guest, base_pages)

    def do_stop(self, guest):
        return {"status": self.guest(guest).stop()}

    def do_fragment_node(self, node, free_mib, pin=True, seed=1):
        return recipes.fragment_node(self.host, node, free_mib, pin, seed)

    def do_unfragment_node(self, node):
        recipes.unfragment_node(self.host, node)

    def do_pools(self, pages, size="2M"):
        recipes.odd_pools(self.host, pages, size)

    def do_break_thps(self, guest, take_mib):
        return recipes.break_thps(self.guest(guest), take_mib)

    def do_collapse(self, guest):
        return self.guest(guest).collapse()

    def do_touch(self, guest, mib=None):
        g = self.guest(guest)
        g.check("touchmem --all" if mib is None else f"touchmem --mib {mib}",
                300)

    def do_balloon(self, guest, mib):
        self.guest(guest).balloon(mib)

    def do_migrate(self, guest, source, target):
        recipes.migrate(self.host, self.guest(guest), source, target)

    def do_freeze(self, guest):
        self.guest(guest).freeze()

    def do_thaw(self, guest):
        self.guest(guest).thaw()

    def do_ctl(self, args, fails=False):
        rc, out, err = self.run.daemon.ctl(*args)
        if (rc != 0) != fails:
            raise LabError(f"vmdefragctl {args}: exit {rc}\n{tail(err or out)}")
        return {"rc": rc, "output": out}

    def do_compact(self, guest, blocks=None, timeout=300):
        rc, answer, text = self.run.daemon.compact(guest, blocks, timeout)
        if rc:
            raise LabError(f"vmdefragctl compact: exit {rc}\n{tail(text)}")
        self.run.figures.setdefault("steered_s", self.run.now())
        self.run.figures.setdefault("steered_waited_s", self.host.waited_s())
        return {"answer": answer}

    def do_wait(self, until, timeout=60, every=1.0):
        """Sample as 'now' until an expression over it is true."""
        def true():
            self.do_sample("now")
            return Evaluator(self.samples).value(until)
        wait_for(true, timeout, until, every)


class Run:
    """One run of a scenario; the document is complete even after a failure."""

    def __init__(self, doc, path, kernel=None):
        h = doc["host"]
        self.doc, self.host, self.daemon = doc, None, None
        self.figures = {}       # 'run' in expressions
        self.guests, self.samples = {}, {"run": self.figures}
        self._kernel = kernel or h.get("kernel", "6.12")
        self._started = time.monotonic()
        self._timeline = None
        self.out = {"scenario": str(path), "title": doc.get("title"),
                    "kernel": self._kernel, "error": None, "steps": [],
                    "expect": [], "samples": self.samples, "timeline": {}}

    def now(self):
        return round(time.monotonic() - self._started, 2)

    def execute(self, log=lambda text: None):
        self._log = log
        try:
            self._set_up()
            steps = Steps(self)
            for table in self.doc["step"]:
                self._step(steps, dict(table))
            self.figures["waited_s"] = self.host.waited_s()
            self._end()
            self._expect()
        except LabError as e:
            self.out["error"] = str(e)
        finally:
            self._last_words()
        self.out["seconds"] = self.now()
        return self.out

    def _set_up(self):
        h = self.doc["host"]
        self.host = Host(kernel=self._kernel, nodes=h.get("nodes", ["2G"]),
                         smp=h.get("smp", 2), init=h.get("init", "plain"),
                         cmdline=h.get("cmdline", ""))
        self.host.start()
        self._log(f"host up after {self.host.boot_s} s")
        self.figures["host_up_s"] = self.now()
        self.out.update(boot_s=self.host.boot_s,
                        kernel_release=self.host.meta["release"],
                        boot_retries=self.host.boot_retries,
                        boot_failures=self.host.boot_failures)
        self._timeline = Timeline(self.host, self._started,
                                  h.get("timeline_s", TIMELINE_S))
        self._timeline.start()
        for name, value in h.get("thp", {}).items():
            self.host.thp(name, value)
        for name, value in h.get("sysctl", {}).items():
            self.host.sysctl(name, value)
        for p in self.doc.get("pool", []):
            self.host.set_pool(p["node"], p["pages"], p.get("size", "2M"))
        for g in self.doc["guest"]:
            if not g.get("later"):
                self.start_guest(g["name"])
        if "daemon" in self.doc:
            self._start_daemon()

    def start_guest(self, name, base_pages=False):
        for table in self.doc["guest"]:
            if table["name"] == name:
                break
        else:
            raise LabError(f"no guest '{name}'")
        args = {k: v for k, v in table.items()
                if k not in ("later", "base_pages")}
        g = self.guests[name] = KvmGuest(self.host, **args)
        if base_pages or table.get("base_pages"):
            recipes.start_in_base_pages(self.host, g)
        else:
            g.start()
        self.out.setdefault("guests", {})[name] = {
            "boot_s": g.boot_s, "up_s": self.now(), "pid": g.pid,
            "boot_failures": g.boot_failures}
        self._log(f"guest {name} up after {g.boot_s} s")

    def _start_daemon(self):
        d = self.doc["daemon"]
        with_agent = {n: g for n, g in self.guests.items()
                      if n in self.host.guests}
        self.daemon = HostDaemon(self.host, with_agent, mode=d.get("mode"),
                                 args=d.get("args", ()),
                                 vm_args=d.get("vm_args", ""))
        self.daemon.start()
        for name, g in with_agent.items():
            if g.has_agent:
                self.daemon.wait_session(name, 60)
        self.figures["sessions_up_s"] = self.now()
        self._log(f"sessions up after {self.now()} s")

    def daemon_figures(self):
        """For each VM what vmdefragd says: its status document."""
        return {name: self.daemon.vm_status(name) for name in self.guests}

    def _step(self, steps, table):
        verb = table.pop("do")
        started = time.monotonic()
        if verb == "sample" and "as" in table:
            table["name"] = table.pop("as")
        try:
            result = getattr(steps, "do_" + verb.replace("-", "_"))(**table)
        except TypeError as e:
            raise LabError(f"step '{verb}': {e}") from e
        except LabError as e:
            raise type(e)(f"step '{verb}' {table}: {e}") from e
        self.out["steps"].append({
            "do": verb, **table, "took_s":
            round(time.monotonic() - started, 2), "result": result})
        self._log(f"{verb} {table} ({time.monotonic() - started:.1f} s)")

    def _expect(self):
        for table in self.doc["expect"]:
            e = Evaluator(self.samples)
            held = bool(e.value(table["that"]))
            row = {**table, "held": held, "values": e.operands(table["that"])}
            self.out["expect"].append(row)
            self._log(f"{'holds' if held else 'FAILS'}: {table['that']}  "
                      f"{row['values']}")
        bad = [r["that"] for r in self.out["expect"] if not r["held"]]
        if bad:
            raise LabError("expected: " + "; ".join(bad))

    def _end(self):
        if self.daemon:
            self.out["history"] = {n: self.daemon.history(n)
                                   for n in self.daemon.guests}
            self.out["daemon_exit"] = self.daemon.stop()
        # It must not ask a host that is going down.
        self._timeline.stop()
        for g in list(self.host.guests.values()):
            self.out["guests"][g.name]["exit"] = g.stop()
        self.out["host_exit"] = self.host.stop()
        complaints = self.host.kernel_complaints()
        if complaints:
            raise LabError("the host's kernel: " + "; ".join(complaints[:3]))

    def _last_words(self):
        if self._timeline and self._timeline.is_alive():
            self._timeline.stop()
            self.out["timeline"] = self._timeline.rows
        if not self.host:
            return
        try:
            if self.daemon:
                self.out["daemon_log"] = self.daemon.log.splitlines()[-200:]
            self.out["guest_consoles"] = {
                g.name: g.console.splitlines()[-40:]
                for g in list(self.host.guests.values())}
        except LabError:
            pass
        self.out["kernel_complaints"] = self.host.kernel_complaints()
        self.out["console_tail"] = self.host.console.splitlines()[-40:]
        self.host.kill()


