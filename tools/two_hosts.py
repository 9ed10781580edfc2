"""Two hosts made of network namespaces of this machine, joined by one link that may be shaped: for MPI jobs over TCP.

Needs root. TwoHosts() raises NoHosts with the reason where namespaces cannot be made; close() takes away all that was made.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

# mpirun's way to reach a host, instead of ssh. Each host has its own name, and its own core if asked.
AGENT = """#!/bin/sh
case "$1" in 10.77.0.1) n={a}; core=0;; 10.77.0.2) n={b}; core=1;; *) exit 1;; esac
shift
exec ip netns exec "$n" unshare -u {pin} sh -c "hostname $n; $*"
"""


class NoHosts(Exception):
    """Why this machine cannot make them."""


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True)


class TwoHosts:
    def __init__(self, one_core_each=False):
        if os.geteuid() != 0:
            raise NoHosts("network namespaces need root")
        for tool in ("ip", "unshare", "mpirun", *(["taskset"] if one_core_each else [])):
            if shutil.which(tool) is None:
                raise NoHosts(f"{tool} is not installed")
        self.names = [f"w{letter}{os.getpid() % 100000}" for letter in "ab"]
        self.pin = one_core_each
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="wn-"))
        try:
            self._make()
        except NoHosts:
            self.close()
            raise

    def _make(self):
        a, b = self.names
        for name in self.names:
            made = ip("netns", "add", name)
            if made.returncode != 0:
                raise NoHosts(f"network namespaces cannot be made here: {made.stderr.strip()}")
        commands = [["link", "add", f"{a}v", "type", "veth", "peer", "name", f"{b}v"]]
        for name, address in ((a, "10.77.0.1/24"), (b, "10.77.0.2/24")):
            commands += [["link", "set", f"{name}v", "netns", name],
                         ["-n", name, "addr", "add", address, "dev", f"{name}v"],
                         ["-n", name, "link", "set", f"{name}v", "up"],
                         ["-n", name, "link", "set", "lo", "up"]]
        for command in commands:
            made = ip(*command)
            if made.returncode != 0:
                raise NoHosts(f"ip {' '.join(command)}: {made.stderr.strip()}")
        agent = self.folder / "agent"
        pin = 'taskset -c "$core"' if self.pin else ""
        agent.write_text(AGENT.format(a=a, b=b, pin=pin))
        agent.chmod(0o755)

    def shape(self, rate):
        """Both directions of the link, such as "1gbit"; burst and queue as deep as a message."""
        for name in self.names:
            made = subprocess.run(["tc", "-n", name, "qdisc", "replace", "dev", f"{name}v", "root", "tbf", "rate", rate,
                                   "burst", "256kb", "latency", "50ms"], capture_output=True, text=True)
            if made.returncode != 0:
                raise NoHosts(f"tc cannot shape a link here: {made.stderr.strip()}")

    def start(self, program, per_host=1, **popen):
        """An MPI job of so many ranks on each host."""
        name = self.names[0]
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR=str(self.folder))
        mpirun = ["mpirun", "--host", f"10.77.0.1:{per_host},10.77.0.2:{per_host}", "-n", str(2 * per_host),
                  "--bind-to", "none", "--mca", "plm_rsh_agent", str(self.folder / "agent"), "--mca", "btl", "tcp,self",
                  "--mca", "btl_tcp_if_include", "10.77.0.0/24", "--mca", "oob_tcp_if_include", "10.77.0.0/24",
                  "-x", "OMPI_MCA_mpi_yield_when_idle=1", *map(str, program)]
        line = " ".join(f"'{word}'" for word in mpirun)
        pin = ["taskset", "-c", "0"] if self.pin else []
        return subprocess.Popen(["ip", "netns", "exec", name, "unshare", "-u", *pin, "sh", "-c",
                                 f"hostname {name}; exec {line}"], env=environment, **popen)

    def close(self):
        for name in self.names:
            for pid in ip("netns", "pids", name).stdout.split():
                try:
                    os.kill(int(pid), 9)
                except ProcessLookupError:
                    pass  # it has just ended
            ip("netns", "del", name)
        shutil.rmtree(self.folder, ignore_errors=True)
