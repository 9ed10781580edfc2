#!/usr/bin/env python3
"""Lets one of four MPI ranks fail in every way and looks at the end of the job.

Usage: fault_test.py PROGRAM [FAULT...]. In every case: the output names the rank, one cause is printed, all ranks end
within twice the wait limit, the exit code is not 0, and no process, shared memory or temporary file stays.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RANKS = 4
LIMIT_MS = 3000
SANITIZERS = [name for name in ("ASAN_OPTIONS", "TSAN_OPTIONS") if name in os.environ]
# What starting and ending four processes may take on a busy machine, beside the limit.
START_S = 20.0 if SANITIZERS else 4.0
HARD_LIMIT_S = 60

# fault -> what the output must hold ({r}: the faulty rank), and how many lines Weft itself may print
FAULTS = {
    "none": (["all steps done"], 0),
    "exit": (["rank {r} failed: something called exit(3)"], 1),
    "_exit": ([",1],{r}]", "Exit code:    3"], 0),  # mpirun's way to name a rank
    "kill": (["rank {r}", "signal 9"], 0),
    "segv": (["rank {r}", "signal 11"], 0),
    "sleep": (["Look at rank {r}: outside comm", "Rank {r} has been outside comm", "(step 3"], 1),
    "loop": (["Look at rank {r}: outside comm", "(step 3, slot 1, layer 0, group 2)"], 1),
    "stop": (["Rank {r} does not answer", "Look at rank {r}: no answer"], 1),
    "wrong_size": (["rank {r} sends 799996 B", "expects 800000 B", "step 3"], 1),
    "wrong_label": (["rank {r} sends 800000 B for \"ring kv (step 3, slot 1, layer 7, group 2)\"", "layer 0"], 1),
    "missing_send": (["Look at rank {r}: it has gone on from \"ring kv (step 3"], 1),
    "exception": (["no memory left"], 1),
    "user_error": (["document 7 is damaged"], 1),
    "dropped": (["rank {r} dropped the handle of \"ring kv (step 3"], 1),
}


def processes_with(mark):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def run_case(program, fault, faulty, scratch):
    mark = f"WEFT_FAULT_CASE={os.getpid()}-{fault}-{faulty}"
    shm = pathlib.Path(tempfile.mkdtemp(prefix="weft-fault-", dir="/dev/shm"))
    tmp = scratch / f"{fault}-{faulty}"
    tmp.mkdir()
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR=str(tmp),
                       OMPI_MCA_btl_vader_backing_directory=str(shm))
    for name in SANITIZERS:  # the program's own end is tested, not the sanitizer's
        environment[name] += ":handle_segv=0"
    environment[mark.split("=")[0]] = mark.split("=")[1]
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(RANKS), program, fault, str(faulty),
               str(LIMIT_MS)]
    start = time.monotonic()
    job = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           start_new_session=True)
    problems = []
    try:
        output, _ = job.communicate(timeout=HARD_LIMIT_S)
    except subprocess.TimeoutExpired:
        problems.append(f"still running after {HARD_LIMIT_S} s")
        for pid in processes_with(mark):
            os.kill(pid, signal.SIGKILL)
        output, _ = job.communicate()
    seconds = time.monotonic() - start
    wanted, lines = FAULTS[fault]
    for text in wanted:
        if text.format(r=faulty) not in output:
            problems.append(f"the output lacks {text.format(r=faulty)!r}")
    if output.count("weft: error ") != lines:
        problems.append(f"{output.count('weft: error:')} error lines of Weft instead of {lines}")
    if (job.returncode == 0) != (fault == "none"):
        problems.append(f"exit code {job.returncode}")
    if seconds > 2 * LIMIT_MS / 1000 + START_S:
        problems.append(f"took {seconds:.1f} s")
    time.sleep(0.3)
    left = processes_with(mark)
    for pid in left:
        problems.append(f"process {pid} is left")
        os.kill(pid, signal.SIGKILL)
    problems += [f"{path} is left" for path in list(shm.rglob("*")) + list(tmp.rglob("*")) if path.is_file()]
    shutil.rmtree(shm)
    print(f"{'FAILED' if problems else 'ok':6} {fault} on rank {faulty}: {seconds:.1f} s, exit code {job.returncode}",
          flush=True)
    if problems:
        print("\n".join(f"       {problem}" for problem in problems) + "\n--- output\n" + output + "---", flush=True)
    return not problems


def main():
    program, chosen = sys.argv[1], sys.argv[2:] or list(FAULTS)
    good = True
    with tempfile.TemporaryDirectory(prefix="wf-") as scratch:
        for fault in chosen:
            for faulty in (2,) if fault in ("none", "segv", "loop", "user_error", "dropped") else (0, 2):
                good = run_case(program, fault, faulty, pathlib.Path(scratch)) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
