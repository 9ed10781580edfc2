#!/usr/bin/env python3
"""Brings up a Slurm of two nodes on this machine, runs an MPI program under srun and under sbatch, takes it down.

Usage: slurm_test.py PROGRAM [ARGUMENT...]. Ends with 77 and a reason where Slurm is not installed or cannot start.
"""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
RANKS = 4

# Two nodes on one machine: own directories per node (TmpFS: PMIx makes one of the same name for both).
CONFIG = """ClusterName=weft
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmctldPort={port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
TmpFS={folder}/tmp/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
SlurmdParameters=config_overrides
NodeName=n[0-1] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=4000
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


class Cluster:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ws-", dir="/tmp"))
        self.processes = []
        self.folder.chmod(0o755)
        for name in ("state", "spool", "log", "tmp/n0", "tmp/n1", "munge"):
            (self.folder / name).mkdir(parents=True)
        port = 20000 + os.getpid() % 20000
        self.config = self.folder / "slurm.conf"
        self.config.write_text(CONFIG.format(host=socket.gethostname().split(".")[0], folder=self.folder, port=port,
                                             first=port + 1, last=port + 2))
        self.environment = dict(os.environ, SLURM_CONF=str(self.config))

    def start(self, command, **options):
        with open(self.folder / "log" / f"{len(self.processes)}.out", "wb") as output:
            self.processes.append(subprocess.Popen(command, env=self.environment, stdout=output,
                                                   stderr=subprocess.STDOUT, **options))

    def up(self):
        munge = self.folder / "munge"
        shutil.copy("/etc/munge/munge.key", munge / "key")
        for path in (munge, munge / "key"):
            shutil.chown(path, "munge", "munge")
        (munge / "key").chmod(0o400)
        shutil.chown(self.folder, "munge", "munge")  # munged insists on owning its socket's folder
        self.start(["setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "/usr/sbin/munged", "--foreground",
                    f"--socket={self.folder}/munge.socket", f"--key-file={munge}/key", f"--pid-file={munge}/pid",
                    f"--log-file={munge}/log", f"--seed-file={munge}/seed"])
        for _ in range(100):
            if (self.folder / "munge.socket").exists():
                break
            time.sleep(0.1)
        self.start(["slurmctld", "-c", "-D", "-f", str(self.config)])
        for node in ("n0", "n1"):
            self.start(["slurmd", "-D", "-N", node, "-f", str(self.config)])
        for _ in range(60):
            shown = subprocess.run(["sinfo", "-h", "-o", "%t %D"], env=self.environment, capture_output=True, text=True)
            if shown.stdout.strip() == "idle 2":
                return
            time.sleep(0.5)
        skip(f"the two nodes do not come up: {shown.stdout} {shown.stderr}")

    def down(self):
        subprocess.run(["scancel", "--user=root", "--full"], env=self.environment, capture_output=True, timeout=30)
        time.sleep(1)
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
        for entry in pathlib.Path("/proc").iterdir():  # steps that outlived their node
            try:
                if entry.name.isdigit() and f"SLURM_CONF={self.config}".encode() in (entry / "environ").read_bytes() \
                        and int(entry.name) != os.getpid():
                    os.kill(int(entry.name), 9)
            except OSError:
                pass
        shutil.rmtree(self.folder, ignore_errors=True)


def main():
    program = sys.argv[1:]
    if os.geteuid() != 0:
        skip("this set-up needs root")
    for tool in ("slurmctld", "slurmd", "srun", "munged", "setpriv"):
        if shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin") is None:
            skip(f"{tool} is not installed (Debian: slurmd slurmctld slurm-client slurm-wlm-basic-plugins munge)")
    if not os.path.exists("/etc/munge/munge.key"):
        skip("munge has no key")
    cluster = Cluster()
    good = True
    try:
        cluster.up()
        environment = dict(cluster.environment, OMPI_MCA_btl="tcp,self", OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        jobs = {"srun": ["srun", "--mpi=pmix", "-N2", f"-n{RANKS}", *program]}
        script = cluster.folder / "job.sh"
        script.write_text("#!/bin/sh\nexec mpirun --bind-to none --oversubscribe --mca mpi_yield_when_idle 1 "
                          f"-n {RANKS} " + " ".join(program) + "\n")
        script.chmod(0o755)
        jobs["mpirun in sbatch"] = ["sbatch", "--wait", "-N2", f"-n{RANKS}", f"--output={cluster.folder}/job.out",
                                    str(script)]
        for name, command in jobs.items():
            print(f"== {name}", flush=True)
            try:
                code = subprocess.run(command, env=environment, timeout=200).returncode
            except subprocess.TimeoutExpired:
                code = "none within 200 s"
            output = cluster.folder / "job.out"
            if name != "srun" and output.exists():
                print(output.read_text())
            print(f"== {name}: exit code {code}", flush=True)
            good = good and code == 0
    finally:
        cluster.down()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
