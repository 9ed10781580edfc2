#!/usr/bin/env python3
"""Runs an MPI program on two hosts made of network namespaces, over TCP.

Usage: namespaces_test.py RANKS_PER_HOST PROGRAM [ARGUMENT...]. Ends with 77 and a reason where namespaces cannot be
made. Takes away all that it made, also after a failure.
"""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import two_hosts  # noqa: E402

SKIPPED = 77


def main():
    per_host, program = int(sys.argv[1]), sys.argv[2:]
    try:
        hosts = two_hosts.TwoHosts()
    except two_hosts.NoHosts as reason:
        print(f"skipped: {reason}")
        return SKIPPED
    try:
        job = hosts.start(program, per_host)
        try:
            return job.wait(timeout=240)
        except subprocess.TimeoutExpired:
            job.terminate()
            print("the job has not ended within 240 s")
            return 1
    finally:
        hosts.close()


if __name__ == "__main__":
    sys.exit(main())
