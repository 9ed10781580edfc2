#!/usr/bin/env python3
"""weft doctor as a user runs it, also beside other engines. Usage: doctor_command_test.py BUILD_DIR"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
NAMES = ["cores", "simd", "fma peak", "blas", "memory", "memory bandwidth", "/dev/shm", "disk", "mpi", "weft-engine"]


class Doctor(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft_doctor_"))
        self.weft = self.folder / "weft"
        shutil.copy(BUILD / "weft", self.weft)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def engine(self, body):
        path = self.folder / "weft-engine"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def doctor(self, *arguments, **environment):
        return subprocess.run([str(self.weft), "doctor", *map(str, arguments)], capture_output=True, text=True,
                              timeout=60, env=dict(os.environ, CI="1", **environment))

    def checks(self, *arguments, **environment):
        shown = self.doctor("--json", "--out", self.folder, *arguments, **environment)
        report = json.loads(shown.stdout)
        self.assertEqual([check["name"] for check in report["checks"]], NAMES)
        problems = [check["name"] for check in report["checks"] if check["verdict"] == "problem"]
        self.assertEqual(shown.returncode, 1 if problems else 0, shown.stderr)
        for name in problems:
            self.assertIn(name, shown.stderr.splitlines()[-1])
        return {check["name"]: check for check in report["checks"]}

    def test_the_table_has_a_line_for_every_check(self):
        shown = self.doctor("--out", self.folder / "yet" / "to be made")
        for name in NAMES:
            self.assertRegex(shown.stdout, rf"(?m)^(ok|warning|problem) +{name} ")
        self.assertFalse((self.folder / "yet").exists())

    def test_json_holds_numbers_and_nothing_else_is_printed(self):
        checks = self.checks()
        self.assertGreater(checks["fma peak"]["values"]["float_flops_per_s"], 1e8)
        self.assertGreaterEqual(checks["cores"]["values"]["usable"], 1)
        for check in checks.values():
            self.assertEqual(check["advice"] == "", check["verdict"] == "ok", check)

    def test_without_an_engine_it_warns_and_does_not_fail(self):
        self.assertEqual(self.checks()["weft-engine"]["verdict"], "warning")

    def test_an_engine_of_this_build_is_ok(self):
        build = subprocess.run([str(self.weft), "--version"], capture_output=True, text=True).stdout
        self.engine(f"echo '{build.strip()}'")
        self.assertEqual(self.checks()["weft-engine"]["verdict"], "ok")

    def test_an_engine_of_another_build_or_a_broken_one_is_a_problem(self):
        self.engine("echo 'weft-engine 0.1.0 (build ba9876543210)'")
        self.assertIn("ba9876543210", self.checks()["weft-engine"]["found"])
        self.engine("exit 127")
        self.assertEqual(self.checks()["weft-engine"]["verdict"], "problem")

    def test_without_mpirun_it_says_what_to_install(self):
        self.assertIn("openmpi-bin", self.checks(PATH="/nowhere")["mpi"]["advice"])

    def test_cores_follow_the_affinity_of_the_process(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one core only")
        one = min(os.sched_getaffinity(0))
        shown = subprocess.run(["taskset", "-c", str(one), str(self.weft), "doctor", "--json"], capture_output=True,
                               text=True, timeout=60, cwd=self.folder)
        cores = json.loads(shown.stdout)["checks"][0]
        self.assertEqual(cores["values"]["usable"], 1)
        self.assertIn("--bind-to none", cores["advice"])

    def test_a_folder_that_cannot_be_written_is_a_problem(self):
        shown = self.doctor("--json", "--out", "/proc/self")
        disk = json.loads(shown.stdout)["checks"][NAMES.index("disk")]
        self.assertEqual((disk["verdict"], shown.returncode), ("problem", 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
