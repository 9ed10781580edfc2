#!/usr/bin/env python3
"""bench/bench.py with programs that print what a test wrote down. Usage: bench_script_test.py SOURCE_DIR"""

import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
SCRIPT = SOURCE / "bench" / "bench.py"
spec = importlib.util.spec_from_file_location("bench", SCRIPT)
bench = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bench)

PROGRAM = """#!/usr/bin/env python3
import json, sys
rows = json.loads({rows!r})
words = sys.argv[1:]
prefixes = tuple(word for word in words if word != "--list")
for row in rows:
    if prefixes and not row["name"].startswith(prefixes):
        continue
    print(row["name"] if "--list" in words else json.dumps(row), flush=True)
sys.exit(0 if "--list" in words else {exit_code})
"""


def row(name, share=0.5, **more):
    limit = None if share is None else 100.0
    return {"name": name, "value": 50.0, "unit": "GFLOP/s", "better": "higher", "samples": 3, "min": 49.0, "p50": 50.0,
            "max": 51.0, "limit": limit, "limit_name": limit and "peak", "share": share, **more}


def baseline(name, key, threshold, **more):
    return {"name": name, "key": key, "threshold": threshold, "hardware": "a test", "date": "2026-11-30", **more}


class Script(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft_bench_"))
        (self.folder / "bench").mkdir()
        self.baselines = self.folder / "baselines"
        self.baselines.mkdir()
        self.program("bench_machine", [row("peak/one", 0.9), row("peak/two", 0.8)])
        self.program("bench_plan", [row("plan/hdp", None, gap=0.01)])

    def tearDown(self):
        shutil.rmtree(self.folder)

    def program(self, name, rows, exit_code=0):
        path = self.folder / "bench" / name
        path.write_text(PROGRAM.format(rows=json.dumps(rows), exit_code=exit_code))
        path.chmod(0o755)

    def baseline(self, *entries):
        (self.baselines / "all.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))

    def run_script(self, *arguments):
        return subprocess.run([sys.executable, str(SCRIPT), str(self.folder), "--baselines", str(self.baselines),
                               *arguments], capture_output=True, text=True, timeout=60)

    def test_json_prints_one_object_a_line_and_nothing_else(self):
        shown = self.run_script("--json")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        names = [json.loads(line)["name"] for line in shown.stdout.splitlines()]
        self.assertEqual(names, ["peak/one", "peak/two", "plan/hdp"])

    def test_names_are_prefixes(self):
        shown = self.run_script("--json", "peak/t", "plan")
        self.assertEqual([json.loads(line)["name"] for line in shown.stdout.splitlines()], ["peak/two", "plan/hdp"])

    def test_the_table_names_the_limit_and_the_counters(self):
        shown = self.run_script().stdout
        self.assertRegex(shown, r"(?m)^peak/one +50\.0 GFLOP/s +49\.0 +51\.0 +3 +90 % +100 peak$")
        self.assertRegex(shown, r"(?m)^plan/hdp .* - +\(gap 0\.010\)$")

    def test_list_runs_nothing(self):
        self.program("bench_machine", [row("peak/one")], exit_code=1)
        shown = self.run_script("--list")
        self.assertEqual((shown.returncode, shown.stdout), (0, "peak/one\nplan/hdp\n"))

    def test_no_such_row_is_wrong_usage(self):
        shown = self.run_script("nothing")
        self.assertEqual(shown.returncode, 2)
        self.assertIn("--list", shown.stderr)

    def test_a_program_that_fails_fails_the_run_but_not_the_others(self):
        self.program("bench_machine", [row("peak/one")], exit_code=1)
        shown = self.run_script("--json")
        self.assertEqual(shown.returncode, 1)
        self.assertEqual(len(shown.stdout.splitlines()), 2)

    def test_check_passes_at_the_threshold_and_fails_below_it_by_name(self):
        self.baseline(baseline("peak/one", "share", 0.9), baseline("plan/hdp", "gap", 0.0, at_most=0.01))
        shown = self.run_script("--check")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("2 rows compared", shown.stderr)
        self.baseline(baseline("peak/one", "share", 0.91), baseline("peak/two", "share", 0.1))
        shown = self.run_script("--check")
        self.assertEqual(shown.returncode, 1)
        self.assertIn("peak/one: share 0.900 is below 0.910", shown.stderr)
        self.assertNotIn("peak/two: share", shown.stderr)

    def test_check_fails_above_an_upper_threshold_and_without_the_figure(self):
        self.assertEqual(len(bench.check_rows([row("a", gap=0.2)], [baseline("a", "gap", 0, at_most=0.1)])), 1)
        self.assertEqual(len(bench.check_rows([row("a", None)], [baseline("a", "share", 0.1)])), 1)
        self.assertEqual(bench.check_rows([row("a")], [baseline("not run", "share", 1)]), [])

    def test_damaged_baselines_are_refused_by_place(self):
        for text, word in (("{\n", "not JSON"), ('{"name": "a", "key": "share"}\n', "threshold")):
            (self.baselines / "bad.jsonl").write_text("\n" + text)
            shown = self.run_script("--check")
            self.assertEqual(shown.returncode, 2)
            self.assertIn("bad.jsonl:2", shown.stderr)
            self.assertIn(word, shown.stderr)

    def test_the_baselines_of_the_project_can_be_read(self):
        entries = bench.load_baselines(SOURCE / "bench" / "baselines")
        self.assertGreater(len(entries), 0)
        for entry in entries:
            self.assertGreaterEqual(entry["measured"], entry["threshold"], entry)


if __name__ == "__main__":
    unittest.main(verbosity=2)
