#!/usr/bin/env python3
"""Runs an MPI program on two hosts made of network namespaces, over TCP.

Usage: namespaces_test.py RANKS_PER_HOST PROGRAM [ARGUMENT...]. Ends with 77 and a reason where namespaces cannot be
made. Takes away all that it made, also after a failure.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77

# mpirun's way to reach a host, instead of ssh. Each host has its own name.
AGENT = """#!/bin/sh
case "$1" in 10.77.0.1) n={a};; 10.77.0.2) n={b};; *) exit 1;; esac
shift
exec ip netns exec "$n" unshare -u sh -c "hostname $n; $*"
"""


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True)


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def make_hosts(a, b):
    for name in (a, b):
        made = ip("netns", "add", name)
        if made.returncode != 0:
            skip(f"network namespaces cannot be made here: {made.stderr.strip()}")
    commands = [["link", "add", f"{a}v", "type", "veth", "peer", "name", f"{b}v"]]
    for name, address in ((a, "10.77.0.1/24"), (b, "10.77.0.2/24")):
        commands += [["link", "set", f"{name}v", "netns", name],
                     ["-n", name, "addr", "add", address, "dev", f"{name}v"],
                     ["-n", name, "link", "set", f"{name}v", "up"],
                     ["-n", name, "link", "set", "lo", "up"]]
    for command in commands:
        made = ip(*command)
        if made.returncode != 0:
            skip(f"ip {' '.join(command)}: {made.stderr.strip()}")


def main():
    per_host, program = int(sys.argv[1]), sys.argv[2:]
    if os.geteuid() != 0:
        skip("network namespaces need root")
    for tool in ("ip", "unshare", "mpirun"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    a, b = f"wa{os.getpid() % 100000}", f"wb{os.getpid() % 100000}"
    folder = pathlib.Path(tempfile.mkdtemp(prefix="wn-"))
    try:
        make_hosts(a, b)
        agent = folder / "agent"
        agent.write_text(AGENT.format(a=a, b=b))
        agent.chmod(0o755)
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR=str(folder))
        mpirun = ["mpirun", "--host", f"10.77.0.1:{per_host},10.77.0.2:{per_host}", "-n", str(2 * per_host),
                  "--bind-to", "none", "--mca", "plm_rsh_agent", str(agent), "--mca", "btl", "tcp,self",
                  "--mca", "btl_tcp_if_include", "10.77.0.0/24", "--mca", "oob_tcp_if_include", "10.77.0.0/24",
                  "-x", "OMPI_MCA_mpi_yield_when_idle=1", *program]
        line = " ".join(f"'{word}'" for word in mpirun)
        job = subprocess.Popen(["ip", "netns", "exec", a, "unshare", "-u", "sh", "-c", f"hostname {a}; exec {line}"],
                               env=environment)
        try:
            return job.wait(timeout=240)
        except subprocess.TimeoutExpired:
            job.terminate()
            print("the job has not ended within 240 s")
            return 1
    finally:
        for name in (a, b):
            for pid in ip("netns", "pids", name).stdout.split():
                os.kill(int(pid), 9)
            ip("netns", "del", name)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
