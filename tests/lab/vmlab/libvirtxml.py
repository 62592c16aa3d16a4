# SPDX-License-Identifier: GPL-2.0-or-later
"""The libvirt domain of a nested host's guest."""

from xml.sax.saxutils import quoteattr

from .guest import AGENT_PORT, LAB_PORT
from .util import LabError


def _memory(g):
    mib = g.mem_bytes >> 20
    backing = {
        "thp": "",
        "memfd": "<source type='memfd'/><access mode='shared'/>",
        "hugetlb": "<hugepages><page size='2' unit='M'/></hugepages>",
        "hugetlb-memfd": "<hugepages><page size='2' unit='M'/></hugepages>"
                         "<source type='memfd'/>",
    }.get(g.backing)
    if backing is None:
        raise LabError(f"libvirt: no backing {g.backing}")
    if g.prealloc:
        backing += "<allocation mode='immediate'/>"
    tune = ""
    if g.node is not None:
        # 'restrictive' is the only mode that can be changed live
        tune = ("<numatune><memory mode='restrictive' "
                f"nodeset='{g.node}'/></numatune>")
    return (f"<memory unit='MiB'>{mib}</memory>"
            f"<memoryBacking>{backing}</memoryBacking>{tune}")


def _channel(path, name):
    return (f"<channel type='unix'><source mode='bind' path={quoteattr(path)}/>"
            f"<target type='virtio' name='{name}'/></channel>")


def domain(g):
    """XML of a KvmGuest; QMP beside libvirt's own by qemu:commandline."""
    d = str(g.dir)
    fpr = "on" if g.free_page_reporting else "off"
    qmp = "".join(f"<qemu:arg value='-qmp'/><qemu:arg value="
                  f"{quoteattr(f'unix:{p},server=on,wait=off')}/>"
                  for p in (f"{d}/qmp-lab.sock", str(g.qmp_socket)))
    return f"""<domain type='kvm'
 xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
<name>{g.name}</name>
{_memory(g)}
<vcpu>{g.smp}</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type>
<kernel>{g.guest_kernel}</kernel><initrd>{d}/initrd</initrd>
<cmdline>console=ttyS0 loglevel=5 panic=0 {g.guest_cmdline}</cmdline></os>
<features><acpi/></features>
<cpu mode='host-passthrough' check='none'/>
<on_reboot>restart</on_reboot><on_crash>preserve</on_crash>
<devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
<controller type='usb' model='none'/>
<serial type='file'><source path='{d}/console.log'/></serial>
{_channel(f"{d}/lab.sock", LAB_PORT)}{_channel(str(g.channel), AGENT_PORT)}
<memballoon model='virtio' freePageReporting='{fpr}'/>
</devices>
<qemu:commandline>{qmp}</qemu:commandline>
</domain>
"""
