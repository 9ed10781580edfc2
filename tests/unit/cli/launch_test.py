#!/usr/bin/env python3
"""`weft train --launch ...` with a fake weft-engine beside a copy of weft.

Usage: launch_test.py WEFT [MPIRUN]. Without MPIRUN the cases that start ranks are left out.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

WEFT, MPIRUN = sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else None)

# Notes what it is told; on USR1 it ends with 75, as a trainer that has saved.
FAKE_ENGINE = """#!/usr/bin/env python3
import os, pathlib, signal, sys, time
rank = os.environ.get("OMPI_COMM_WORLD_RANK", "none")
size = os.environ.get("OMPI_COMM_WORLD_SIZE", "none")
notes = pathlib.Path(os.environ["NOTES"])
blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
held = sorted(signal.Signals(s).name for s in blocked if s in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP))
def saved(signum, frame):
    (notes / ("saved-" + rank)).write_text(signal.Signals(signum).name)
    time.sleep(0.3)
    sys.exit(75)
signal.signal(signal.SIGUSR1, saved)
signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
text = " ".join([rank, size, ",".join(held), os.environ.get("WEFT_BUILD_ID", "") and "build"] + sys.argv[1:])
(notes / ("new-" + rank)).write_text(text)
(notes / ("new-" + rank)).rename(notes / ("rank-" + rank))
if os.environ.get("FAKE_EXIT"):
    sys.exit(int(os.environ["FAKE_EXIT"]))
if os.environ.get("FAKE_WAIT"):
    time.sleep(60)
"""


class Launch(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="wl-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.weft = self.folder / "weft"
        shutil.copy(WEFT, self.weft)
        engine = self.folder / "weft-engine"
        engine.write_text(FAKE_ENGINE)
        engine.chmod(0o755)
        self.notes = self.folder / "notes"
        self.notes.mkdir()
        inherited = {k: v for k, v in os.environ.items()
                     if not k.startswith(("OMPI_", "PMI", "SLURM_")) and k not in ("RANK", "WORLD_SIZE")}
        self.environment = dict(inherited, NOTES=str(self.notes), TMPDIR=str(self.folder))

    def start(self, *arguments, **variables):
        return subprocess.Popen([self.weft, "train", *arguments], env=dict(self.environment, **variables),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run_to_end(self, *arguments, **variables):
        job = self.start(*arguments, **variables)
        output, _ = job.communicate(timeout=60)
        return job.returncode, output

    def wait_for_ranks(self, count):
        for _ in range(600):
            if len(list(self.notes.glob("rank-*"))) == count:
                return
            time.sleep(0.05)
        self.fail(f"{count} ranks have not come up")

    def note(self, rank):
        return (self.notes / f"rank-{rank}").read_text()

    def test_threads_are_the_default_and_keep_every_argument(self):
        for launch in ([], ["--launch", "threads"], ["--launch=threads"]):
            code, output = self.run_to_end("--config", "a.toml", *launch, "--ranks", "3")
            self.assertEqual(code, 0, output)
            self.assertEqual(self.note("none"), "none none SIGHUP,SIGINT,SIGTERM,SIGUSR1 build "
                             "train --config a.toml --ranks 3")

    def test_exit_codes_come_through(self):
        self.assertEqual(self.run_to_end(FAKE_EXIT="75")[0], 75)
        if MPIRUN:
            self.assertEqual(self.run_to_end("--launch", "mpi", "--ranks", "2", FAKE_EXIT="75")[0], 75)
            self.assertEqual(self.run_to_end("--launch", "mpi", "--ranks", "2", FAKE_EXIT="1")[0], 1)

    def test_what_cannot_work_is_refused_with_2(self):
        for arguments, variables, expected in (
                (["--launch", "ssh"], {}, "expected threads or mpi"),
                (["--launch"], {}, "needs a value"),
                (["--launch", "mpi"], {}, "needs --ranks"),
                (["--launch", "mpi", "--ranks", "0"], {}, "from 1 to"),
                (["--launch", "mpi", "--ranks", "two"], {}, "'two'"),
                (["--launch", "mpi", "--ranks", "2"], {"PATH": "/nowhere"}, "openmpi-bin"),
                (["--launch", "mpi", "--ranks", "2"], {"RANK": "0", "WORLD_SIZE": "1"}, "torchrun")):
            code, output = self.run_to_end(*arguments, **variables)
            self.assertEqual(code, 2, output)
            self.assertIn(expected, output)
        self.assertEqual(list(self.notes.iterdir()), [])

    @unittest.skipUnless(MPIRUN, "no mpirun")
    def test_mpi_starts_the_ranks_with_the_arguments_but_without_launch(self):
        code, output = self.run_to_end("--config", "a b.toml", "--launch", "mpi", "--ranks", "3", "--x.y", "z")
        self.assertEqual(code, 0, output)
        for rank in range(3):
            self.assertEqual(self.note(rank), f"{rank} 3 SIGHUP,SIGINT,SIGTERM,SIGUSR1 build "
                             "train --config a b.toml --ranks 3 --x.y z")

    @unittest.skipUnless(MPIRUN, "no mpirun")
    def test_the_first_signal_lets_every_rank_save_and_75_comes_through(self):
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT):
            for note in self.notes.iterdir():
                note.unlink()
            job = self.start("--launch", "mpi", "--ranks", "3", FAKE_WAIT="1")
            self.wait_for_ranks(3)
            job.send_signal(number)
            output, _ = job.communicate(timeout=30)
            self.assertEqual(job.returncode, 75, output)
            for rank in range(3):
                self.assertEqual((self.notes / f"saved-{rank}").read_text(), "SIGUSR1")

    @unittest.skipUnless(MPIRUN, "no mpirun")
    def test_a_second_interrupt_ends_the_job_at_once(self):
        job = self.start("--launch", "mpi", "--ranks", "2", FAKE_WAIT="1")
        self.wait_for_ranks(2)
        # The ranks are stopped, so they cannot answer the first one.
        for rank in range(2):
            self.assertTrue((self.notes / f"rank-{rank}").exists())
        job.send_signal(signal.SIGINT)
        job.send_signal(signal.SIGINT) if job.poll() is None else None
        output, _ = job.communicate(timeout=20)
        self.assertNotEqual(job.returncode, 0, output)

    @unittest.skipUnless(MPIRUN, "no mpirun")
    def test_no_rank_outlives_a_killed_parent(self):
        job = self.start("--launch", "mpi", "--ranks", "2", FAKE_WAIT="1")
        self.wait_for_ranks(2)
        job.kill()
        job.communicate(timeout=20)
        for _ in range(200):
            if not self.alive():
                return
            time.sleep(0.05)
        self.fail(f"still alive: {self.alive()}")

    def alive(self):
        mark = f"NOTES={self.notes}".encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                    found.append(entry.name)
            except OSError:
                pass
        return found


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
