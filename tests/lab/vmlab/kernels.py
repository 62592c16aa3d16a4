# SPDX-License-Identifier: GPL-2.0-or-later
"""Fetch Debian's cloud kernels into the cache, once.

Names in the archive move with each update, so the newest package of a series
is resolved when it is needed, with a private apt configuration: own sources,
own lists, own (empty) dpkg status. Mirror, proxy, credentials and keyring are
those the machine's own apt uses. Nothing is installed.

Cache: kernels/v<FORMAT>/<series>/{vmlinuz,modules/*.ko,meta.json}. FORMAT rises
when the wanted modules change, so that a finished folder is never rewritten.
"""

import json
import lzma
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .util import LabError, cache_dir, locked, need, run_checked

FORMAT = 1

# Suites are tried in order; the first that has the series is taken.
# A suite that the mirror no longer has is passed over, and named on failure.
SERIES = {
    "6.1": ["bookworm-security", "bookworm"],
    "6.12": ["trixie", "bookworm-backports"],
    "7.3": ["trixie-backports", "forky", "sid"],
}

# Each with what it depends upon. Names that a kernel has neither as a module
# nor built in are noted in meta.json as absent.
WANTED = ["virtio_pci", "virtio_console", "virtio_blk", "virtio_balloon",
          "virtio_mem", "ext4", "xfs", "crc32c_generic", "zram",
          "lzo_rle", "kvm", "kvm_amd", "kvm_intel", "irqbypass"]


def say(text):
    print(f"lab: {text}", flush=True)


def folder(series):
    return cache_dir() / "kernels" / f"v{FORMAT}" / series


def check_series(series):
    if series not in SERIES:
        raise LabError(f"kernel '{series}' is not one of "
                       + ", ".join(SERIES))


def cached(series):
    """meta.json of a cached kernel, or None."""
    check_series(series)
    try:
        with open(folder(series) / "meta.json", encoding="utf-8") as f:
            return json.load(f)
    except FileNotFoundError:
        return None


def get(series, fetch=True):
    """(folder, meta) of a kernel; fetched first where it is missing."""
    meta = cached(series)
    if meta is None:
        if not fetch:
            raise LabError(f"kernel {series} is not in the cache: "
                           f"tests/lab/lab fetch {series}")
        meta = fetch_one(series)
    return folder(series), meta


# ---------------------------------------------------------------- apt

def _machine_sources():
    """[(uri, release, signed_by)] of the machine's own apt sources."""
    fmt = "$(REPO_URI)|$(RELEASE)|$(SOURCESENTRY)"
    out = run_checked([need("apt-get", "apt"), "indextargets", "--format",
                       fmt, "Created-By: Packages"],
                      "reading the machine's apt sources")
    found = []
    for line in out.splitlines():
        parts = line.split("|")
        if len(parts) == 3 and "://" in parts[0]:
            path = parts[2].rsplit(":", 1)[0]
            found.append((parts[0], parts[1], _signed_by(path, parts[0])))
    return found


def _signed_by(path, uri):
    """The Signed-By of one source as the machine has it; '' for none."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
    bare = uri.rstrip("/")
    if path.endswith(".sources"):
        for stanza in re.split(r"\n\s*\n", text):
            if re.search(re.escape(bare) + r"/?(\s|$)", stanza):
                m = re.search(r"^Signed-By:(.*(?:\n[ \t].*)*)", stanza,
                              re.M | re.I)
                return m.group(1).strip("\n") if m else ""
        return ""
    for line in text.splitlines():
        if bare in line and line.strip().startswith("deb"):
            m = re.search(r"signed-by=([^\s\]]+)", line)
            return " " + m.group(1) if m else ""
    return ""


def source_for(suite):
    """(uri, signed_by) of the archive that serves `suite`."""
    wants_security = suite.endswith("-security")
    names = ("bookworm", "trixie", "forky", "sid", "stable", "oldstable",
             "testing", "unstable", "bullseye")
    for uri, release, signed in _machine_sources():
        if release.split("-")[0].split("/")[0] not in names:
            continue
        if release.endswith("-security") == wants_security:
            return uri, signed
    if wants_security:
        return None
    raise LabError("the machine's apt sources name no Debian archive; the lab "
                   "takes the mirror from there (apt-get indextargets)")


class _Apt:
    """apt with everything private but mirror, proxy and keys."""

    def __init__(self, work, suite):
        self.work = Path(work)
        for d in ("lists/partial", "cache/archives/partial", "state", "empty",
                  "debs"):
            (self.work / d).mkdir(parents=True, exist_ok=True)
        (self.work / "status").touch()
        source = source_for(suite)
        if source is None:
            raise LabError("no security archive in the machine's apt sources")
        uri, signed = source
        text = f"Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: main\n"
        if signed:
            text += f"Signed-By:{signed}\n"
        (self.work / "lab.sources").write_text(text, encoding="utf-8")
        self._write_config()

    def _write_config(self):
        """The machine's configuration less its hooks and folders."""
        dump = run_checked([need("apt-config", "apt"), "dump"],
                           "reading the machine's apt configuration")
        drop = ("Dir", "DPkg", "APT::Update::Pre-Invoke",
                "APT::Update::Post-Invoke", "APT::Default-Release",
                "APT::Architectures", "Binary")
        keep = [s for s in dump.splitlines() if not s.startswith(drop)]
        w = self.work
        keep += [f'Dir::Etc::{k} "{v}";' for k, v in (
            ("sourcelist", w / "lab.sources"), ("sourceparts", w / "empty"),
            ("parts", w / "empty"), ("main", w / "none"),
            ("preferences", w / "none"), ("preferencesparts", w / "empty"))]
        keep += [f'Dir::State "{w}/state";',
                 f'Dir::State::lists "{w}/lists";',
                 f'Dir::State::status "{w}/status";',
                 f'Dir::Cache "{w}/cache";',
                 'APT::Sandbox::User "root";',
                 'APT::Architecture "amd64";',
                 'APT::Architectures "amd64";',
                 'APT::Update::Error-Mode "any";',
                 'Acquire::Languages "none";',
                 'Acquire::Retries "3";']
        (w / "apt.conf").write_text("\n".join(keep) + "\n", encoding="utf-8")

    def run(self, tool, args, what, **kwargs):
        env = dict(os.environ, APT_CONFIG=str(self.work / "apt.conf"),
                   LC_ALL="C", DEBIAN_FRONTEND="noninteractive")
        return run_checked([need(tool, "apt"), "-q"] + args, what, env=env,
                           **kwargs)

    def newest_image(self, series):
        """Name of the newest signed cloud image of a series, or None."""
        names = self.run("apt-cache", ["pkgnames", f"linux-image-{series}"],
                         "listing kernel packages").split()
        rx = re.compile(r"linux-image-(" + re.escape(series)
                        + r"[.+-]\S*?)-cloud-amd64$")
        found = [(_version_key(m.group(1)), m.string)
                 for m in map(rx.match, names) if m]
        return max(found)[1] if found else None

    def depends(self, package):
        """(version, names it depends on with an exact version)."""
        text = self.run("apt-cache", ["show", "--no-all-versions", package],
                        f"reading about {package}")
        version = re.search(r"^Version: (\S+)", text, re.M).group(1)
        dep = re.search(r"^Depends: (.*)", text, re.M)
        names = re.findall(r"(\S+) \(= ", dep.group(1)) if dep else []
        return version, names

    def download(self, packages):
        self.run("apt-get", ["download"] + packages,
                 "downloading " + " ".join(packages), timeout=1200,
                 cwd=self.work / "debs")
        return sorted((self.work / "debs").glob("*.deb"))


def _version_key(text):
    return [int(n) for n in re.findall(r"\d+", text)]


# ---------------------------------------------------------------- unpack

def _module_bytes(path):
    data = Path(path).read_bytes()
    if path.name.endswith(".xz"):
        return lzma.decompress(data)
    if path.name.endswith(".zst"):
        return subprocess.run([need("zstd", "zstd"), "-dc", str(path)],
                              check=True, stdout=subprocess.PIPE).stdout
    if path.name.endswith(".gz"):
        import gzip
        return gzip.decompress(data)
    return data


def _norm(name):
    return name.replace("-", "_")


def _keep_modules(tree, out):
    """Copy WANTED and what they need, unpacked; -> meta fields."""
    have = {}
    for p in tree.rglob("*.ko*"):
        have[_norm(p.name.split(".ko")[0])] = p
    builtin = set()
    for p in tree.rglob("modules.builtin"):
        builtin |= {_norm(Path(s).name.split(".ko")[0])
                    for s in p.read_text(encoding="utf-8").split()}
    out.mkdir()
    needs, absent, todo = {}, [], list(WANTED)
    while todo:
        name = _norm(todo.pop())
        if name in needs or name in builtin:
            continue
        if name not in have:
            absent.append(name)
            continue
        data = _module_bytes(have[name])
        m = re.search(rb"\0depends=([^\0]*)\0", data)
        deps = [_norm(d) for d in m.group(1).decode().split(",") if d] \
            if m else []
        needs[name] = deps
        (out / f"{name}.ko").write_bytes(data)
        todo += deps
    return {"modules": needs, "absent": sorted(absent),
            "builtin": sorted(b for b in builtin if b in map(_norm, WANTED))}


def _find_vmlinuz(tree):
    found = [p for p in tree.rglob("vmlinuz*") if p.is_file()
             and not p.is_symlink()]
    if len(found) != 1:
        raise LabError(f"expected one vmlinuz in the packages, found "
                       f"{[p.name for p in found]}")
    return found[0]


def _resolve(series, work):
    """Try the suites in order -> (apt, suite, image package)."""
    tried = []
    for suite in SERIES[series]:
        try:
            apt = _Apt(Path(work) / suite, suite)
            apt.run("apt-get", ["update"], f"apt-get update of {suite}")
            image = apt.newest_image(series)
        except LabError as e:
            tried.append(f"{suite}: {e}")
            continue
        if image:
            return apt, suite, image
        tried.append(f"{suite}: has no linux-image-{series}*-cloud-amd64")
    raise LabError(f"no kernel {series} to be had:\n  " + "\n  ".join(tried))


def _unpack(series, work, out):
    apt, suite, image = _resolve(series, work)
    version, deps = apt.depends(image)
    # Since 6.19 the image package is empty, and its parts hold the files.
    parts = [d for d in deps if d.startswith(
        ("linux-base-", "linux-binary-", "linux-modules-"))]
    say(f"{series}: {image} {version} from {suite}")
    tree = Path(work) / "tree"
    for deb in apt.download(parts or [image]):
        run_checked([need("dpkg-deb", "dpkg"), "-x", str(deb), str(tree)],
                    f"unpacking {deb.name}")
    shutil.copyfile(_find_vmlinuz(tree), out / "vmlinuz")
    meta = {"series": series, "package": image, "version": version,
            "suite": suite, "release": image[len("linux-image-"):]}
    meta.update(_keep_modules(tree, out / "modules"))
    with open(out / "meta.json", "w", encoding="utf-8") as f:
        json.dump(meta, f, indent=1)
    return meta


def fetch_one(series):
    """Fetch one kernel unless it is cached; -> meta."""
    check_series(series)
    final = folder(series)
    with locked(final.parent / f"{series}.lock"):
        meta = cached(series)
        if meta:
            return meta
        say(f"{series}: fetching (once)")
        with tempfile.TemporaryDirectory(prefix=".fetch-",
                                         dir=final.parent) as work:
            out = Path(work) / "out"
            out.mkdir()
            meta = _unpack(series, work, out)
            os.rename(out, final)
    return meta
