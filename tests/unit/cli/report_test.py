#!/usr/bin/env python3
"""weft report from outside: pages of plans, runs and Timelines, opened in a browser without a window.

Usage: report_test.py WEFT. Ends with 77 (skipped) where no Chromium is installed. REPORT_TEST_KEEP=FOLDER keeps the
pages there.
"""

import html.parser
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
WEFT = None
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PHASES = ["plan_s", "data_s", "forward_s", "backward_s", "exchange_s", "reduce_s", "optimizer_s"]
UNITS = {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, "B": 1, **{f"{p}iB": 1024 ** (i + 1) for i, p in enumerate("KMGTP")}}


def weft(*arguments):
    return subprocess.run([WEFT, *map(str, arguments)], capture_output=True, text=True)


class Numbers(html.parser.HTMLParser):
    """key -> (exact value, unit, shown text) of every number in the page, and the page's state."""

    def __init__(self, text):
        super().__init__()
        self.numbers, self.state, self.open = {}, None, None
        self.attributes = {}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "html":
            self.state, self.attributes = attributes.get("data-state"), attributes
        if "data-key" in attributes:
            self.open = attributes["data-key"]
            assert self.open not in self.numbers, f"key {self.open} is there twice"
            self.numbers[self.open] = [attributes["data-value"], attributes["data-unit"], ""]

    def handle_data(self, data):
        if self.open:
            self.numbers[self.open][2] += data

    def handle_endtag(self, tag):
        self.open = None


def shown_value(text, unit):
    """The number that a text says, and half of its last digit."""
    match = re.fullmatch(r"(-?[\d,]*\.?\d+)(e[+-]?\d+)? ?(\S*)", text)
    assert match, f"'{text}' is no number"
    digits, power, suffix = match[1].replace(",", ""), float("1" + (match[2] or "e0")), match[3]
    scale = {"share": 0.01, "ns": 1e9}.get(unit, 1) * UNITS.get(suffix, 1) * power
    last = 10.0 ** -len(digits.partition(".")[2])
    return float(digits) * scale, 0.5000001 * last * scale


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(os.environ.get("REPORT_TEST_KEEP") or tempfile.mkdtemp(prefix="weft_report_"))
        cls.folder.mkdir(exist_ok=True)
        cls.plans = {}
        for name, ranks, strategy in [("hdp512", 512, "hdp"), ("static512", 512, "static"), ("hdp1024", 1024, "hdp"), ("pipes", 64, "hdp")]:
            arguments = ["plan", "--workload", "github", "--context", "256K" if name == "pipes" else "1M", "--global-batch-tokens", f"{ranks * 24}K",
                         "--ranks", ranks, "--capacity", "8K", "--strategy", strategy, "--pipeline-stages", 4 if name == "pipes" else 1]
            saved = weft(*arguments, "--out", cls.folder / f"{name}.plan")
            assert saved.returncode == 0, saved.stderr
            cls.plans[name] = json.loads(weft(*arguments, "--json").stdout)

    @classmethod
    def tearDownClass(cls):
        if not os.environ.get("REPORT_TEST_KEEP"):
            shutil.rmtree(cls.folder)

    def page(self, name, *arguments):
        path = self.folder / name
        made = weft("report", *arguments, "--out", path)
        self.assertEqual(made.returncode, 0, made.stderr)
        return path

    def open(self, path, fragment=""):
        """The numbers of the drawn page; fails on anything that the browser's console says."""
        profile = tempfile.mkdtemp(prefix="weft_chromium_")
        try:
            opened = subprocess.run(
                [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}", "--enable-logging=stderr",
                 "--window-size=1400,1000", "--virtual-time-budget=4000", "--dump-dom", f"file://{path.resolve()}{fragment}"],
                capture_output=True, text=True, timeout=200)
        finally:
            shutil.rmtree(profile, ignore_errors=True)
        said = [line for line in opened.stderr.splitlines() if "CONSOLE" in line]
        self.assertEqual(said, [])
        numbers = Numbers(opened.stdout)
        self.assertEqual(numbers.state, "ready", opened.stderr[-500:])
        self.check_texts(numbers)
        return numbers

    def check_texts(self, page):
        """Every number that a reader sees is the exact one, rounded."""
        for key, (value, unit, text) in page.numbers.items():
            if value == "":
                self.assertEqual(text, "–", key)
            elif unit == "text":
                self.assertEqual(text, value, key)
            else:
                shown, slack = shown_value(text, unit)
                self.assertAlmostEqual(shown, float(value), delta=slack, msg=f"{key}: {text}")

    def value(self, page, key):
        self.assertIn(key, page.numbers)
        return float(page.numbers[key][0])

    def check_plan(self, page, i, plan):
        lengths = [s["tokens"] for s in plan["sequences"]]
        expected = {"makespan_ns": plan["makespan_ns"], "bound_ns": plan["lower_bound_ns"], "ranks": plan["num_ranks"], "slots": plan["num_slots"],
                    "capacity": plan["capacity_tokens"], "sequences": len(lengths), "tokens": sum(lengths), "shared": len(plan["groups"]),
                    "max_degree": max([len(g["ranks"]) for g in plan["groups"]] or [1]), "micro_batches": sum(len(r) for r in plan["ranks"])}
        for key, value in expected.items():
            self.assertEqual(self.value(page, f"plan.{i}.{key}.table"), value, key)
        self.assertAlmostEqual(self.value(page, f"plan.{i}.gap.table"), (plan["makespan_ns"] - plan["lower_bound_ns"]) / plan["lower_bound_ns"])

    def test_a_plan_of_1024_ranks_shows_the_plans_numbers(self):
        page = self.open(self.page("plan1024.html", "--plan", self.folder / "hdp1024.plan"))
        plan = self.plans["hdp1024"]
        self.check_plan(page, 0, plan)
        lengths = [s["tokens"] for s in plan["sequences"]]
        for k in range(min(lengths).bit_length() - 1, max(lengths).bit_length()):
            mine = [n for n in lengths if n.bit_length() - 1 == k]
            self.assertEqual(self.value(page, f"lengths.sequences.{k}"), len(mine))
            self.assertEqual(self.value(page, f"lengths.tokens.{k}"), sum(mine))
        split = [float(v[0]) for key, v in page.numbers.items() if key.startswith("plan.0.split.")]
        self.assertAlmostEqual(sum(split), 1)
        waits = sum(float(v[0]) for key, v in page.numbers.items() if re.match(r"plan\.0\.split\.(wait|after)", key))
        self.assertAlmostEqual(waits, self.value(page, "plan.0.idle_share.table"))

    def test_plans_stand_side_by_side(self):
        page = self.open(self.page("plans.html", *(a for name in ("hdp512", "static512", "pipes") for a in ("--plan", self.folder / f"{name}.plan"))))
        for i, name in enumerate(("hdp512", "static512", "pipes")):
            self.check_plan(page, i, self.plans[name])
            self.assertEqual(page.numbers[f"plan.{i}.strategy"][2], self.plans[name]["strategy"])

    def test_the_map_says_what_lies_under_the_pointer_and_zooms(self):
        path = self.page("probe.html", "--plan", self.folder / "hdp512.plan")
        probe = """<script>
          const plan = DATA.plans[0], canvas = planMap.canvas, box = canvas.getBoundingClientRect();
          const rank = 300, first = plan.first_box[rank], slot = plan.box_slot[first];
          const {width, height} = planMap.size();
          const x = MAP_LEFT + (plan.slot_start[slot] + plan.box_own[first] / 2) / planMap.wholeTime * width, y = MAP_TOP + (rank + 0.5) / plan.ranks * height;
          const send = (type, more) => canvas.dispatchEvent(new (type === 'wheel' ? WheelEvent : type === 'keydown' ? KeyboardEvent : PointerEvent)(type, {clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true, ...more}));
          send('pointermove');
          const out = document.documentElement.dataset;
          out.tip = planMap.tip.innerText;
          out.rank = rank; out.tokens = plan.box_tokens[first];
          canvas.focus();
          send('wheel', {deltaY: -400, shiftKey: true});
          out.timeZoom = (planMap.view.t1 - planMap.view.t0) / planMap.wholeTime;
          out.rankZoom = (planMap.view.r1 - planMap.view.r0) / plan.ranks;
          send('keydown', {key: '0'});
          send('keydown', {key: '+'});
          out.keyZoom = (planMap.view.r1 - planMap.view.r0) / plan.ranks;
          send('keydown', {key: '0'});
          out.reset = planMap.view.r1 - planMap.view.r0;
        </script></body>"""
        path.write_text(path.read_text().replace("</body>", probe))
        out = self.open(path).attributes
        self.assertIn(f"rank {out['data-rank']}, slot", out["data-tip"])
        self.assertIn(f"{int(out['data-tokens']):,} tokens", out["data-tip"])
        self.assertLess(float(out["data-time-zoom"]), 0.9)
        self.assertAlmostEqual(float(out["data-rank-zoom"]), 1)
        self.assertAlmostEqual(float(out["data-key-zoom"]), 0.7)
        self.assertAlmostEqual(float(out["data-reset"]), 512)

    def timeline(self, name, strategy, stages=1, chunks=1):
        """A simulated step of 128 ranks: its file and what is in it."""
        path = self.folder / f"{name}.json"
        made = weft("simulate", "--model", "llama-7b", "--cluster", "h800", "--devices", 128 * stages, "--pp", stages, "--virtual-stages", chunks, "--workload", "github", "--context", "64K",
                    "--global-batch-tokens", "4M", "--strategy", strategy, "--timeline", path)
        self.assertEqual(made.returncode, 0, made.stderr)
        return path, json.loads(path.read_text())

    def check_timeline(self, page, i, timeline):
        peaks, seconds = sorted(timeline["peak_bytes"]), timeline["step_time_ns"] / 1e9
        devices, middle = timeline["num_ranks"] * timeline["pipeline_stages"], len(peaks) // 2
        median = peaks[middle] if len(peaks) % 2 else (peaks[middle - 1] + peaks[middle]) / 2
        expected = {"step_time_ns": timeline["step_time_ns"], "micro_batches_time_ns": timeline["micro_batches_time_ns"], "tokens": timeline["tokens"],
                    "tokens_per_s": timeline["tokens"] / seconds, "ranks": timeline["num_ranks"], "stages": timeline["pipeline_stages"],
                    "virtual_stages": timeline.get("virtual_stages", 1),
                    "idle_share": timeline["split"]["data_parallel_bubble"] + timeline["split"]["pipeline_bubble"], "sent_bytes": sum(timeline["bytes"].values()),
                    "peak_bytes_min": peaks[0], "peak_bytes_median": median, "peak_bytes_max": peaks[-1],
                    **{f"split.{key}": share for key, share in timeline["split"].items()}, **{f"bytes.{key}": sent for key, sent in timeline["bytes"].items()}}
        for key, value in expected.items():
            self.assertAlmostEqual(self.value(page, f"timeline.{i}.{key}.table"), value, delta=1e-12 * abs(value), msg=key)
        self.assertEqual(page.numbers[f"timeline.{i}.strategy.table"][2], timeline["strategy"])
        if f"timeline.{i}.split.compute" not in page.numbers:
            return  # another one is shown
        for key, share in timeline["split"].items():
            self.assertEqual(self.value(page, f"timeline.{i}.split.{key}"), share)
            self.assertAlmostEqual(self.value(page, f"timeline.{i}.split_ns.{key}"), share * timeline["step_time_ns"], delta=1)
        for key, sent in timeline["bytes"].items():
            self.assertEqual(self.value(page, f"timeline.{i}.bytes.{key}"), sent)
            self.assertAlmostEqual(self.value(page, f"timeline.{i}.bytes_per_device.{key}"), sent / devices)

    def test_timelines_stand_side_by_side_with_their_own_numbers(self):
        made = [self.timeline("hdp", "hdp"), self.timeline("static", "static"), self.timeline("pipes", "hdp", stages=2, chunks=2)]
        path = self.page("timelines.html", *(a for file, _ in made for a in ("--timeline", file)))
        # The best of a row, as the page marks it.
        path.write_text(path.read_text().replace("</body>", """<script>
          document.documentElement.dataset.best = [...document.querySelectorAll('td.best')].map((cell) => cell.dataset.key).join(' ');
        </script></body>"""))
        page = self.open(path)
        for i, (_, timeline) in enumerate(made):
            self.check_timeline(page, i, timeline)
        self.assertIn("timeline.0.split.compute", page.numbers)
        fastest = min(range(3), key=lambda i: made[i][1]["step_time_ns"])
        best = page.attributes["data-best"].split()
        self.assertEqual([key for key in best if ".step_time_ns." in key], [f"timeline.{fastest}.step_time_ns.table"])
        self.assertEqual([key for key in best if ".tokens_per_s." in key], [f"timeline.{fastest}.tokens_per_s.table"])
        self.assertFalse([key for key in best if ".cost." in key or ".ranks." in key])

    def test_the_timeline_says_what_each_device_does_and_paints_it(self):
        file, timeline = self.timeline("pointed", "hdp", stages=2, chunks=2)
        path = self.page("pointed.html", "--timeline", file)
        probe = """<script>
          const shown = DATA.timelines[0], wanted = %s;
          const {width, height} = timelineMap.size(), canvas = timelineMap.canvas, box = canvas.getBoundingClientRect();
          const tips = [];
          const paint = (width, height) => {
            const image = new ImageData(width, height);
            timelineMap.palette = timelineMap.makePalette();
            timelineMap.paint(image, width, height);
            return image.data;
          };
          for (const byStage of [true, false]) {
            timelineMap.orderRows(byStage);
            for (const [rank, stage, time] of wanted) {
              const row = byStage ? stage * shown.ranks + rank : rank * shown.stages + stage;
              timelineMap.setView({t0: time - 1e6, t1: time + 1e6, r0: row, r1: row + 1});
              const {t0, t1, r0, r1} = timelineMap.view;
              const x = MAP_LEFT + (time - t0) / (t1 - t0) * width, y = MAP_TOP + (row + 0.5 - r0) / (r1 - r0) * height;
              canvas.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + x, clientY: box.top + y, bubbles: true}));
              const [r, g, b] = paint(100, 1).slice(4 * Math.round((time - t0) / (t1 - t0) * 100));
              const names = Object.entries(ACTIVITIES).filter(([, {colour}]) => String(rgbOf(colour)) === String([r, g, b])).map(([name]) => name);
              tips.push({text: timelineMap.tip.innerText, painted: names[0] || (String(rgbOf('--idle')) === String([r, g, b]) ? 'idle' : 'nothing')});
            }
          }
          // 24 rows, stages by turns, in each pixel's row: when stage 1 has not begun, half of them are idle.
          timelineMap.setView({t0: 0, t1: 2 * %d, r0: 0, r1: 240});
          const forward = rgbOf(ACTIVITIES.forward.colour)[0], idle = rgbOf('--idle')[0], averaged = paint(4, 10);
          document.documentElement.dataset.forward = JSON.stringify(Array.from({length: 10}, (unused, y) => (averaged[y * 16] - idle) / (forward - idle)));
          document.documentElement.dataset.tips = JSON.stringify(tips);
        </script></body>"""
        rng = random.Random(5)
        long = [e for e in timeline["events"] if e[6] - e[5] > 4_000_000]
        chosen = [event for kind in range(7) for event in rng.sample([e for e in long if e[2] == kind], min(3, len([e for e in long if e[2] == kind])))]
        self.assertGreater(len({e[2] for e in chosen}), 2)
        idle = next((a, b) for a, b in zip(timeline["events"], timeline["events"][1:]) if a[:2] == b[:2] and b[5] - a[6] > 4_000_000)
        wanted = [(e[0], e[1], (e[5] + e[6]) / 2) for e in chosen] + [(*idle[0][:2], (idle[0][6] + idle[1][5]) / 2)]
        first_of_stage_1 = min(e[5] for e in timeline["events"] if e[1] == 1)
        running = [e for e in timeline["events"] if e[1:3] == [0, 0] and e[5] <= first_of_stage_1 / 2 < e[6]]
        self.assertEqual(len(running), timeline["num_ranks"])
        path.write_text(path.read_text().replace("</body>", probe % (json.dumps(wanted), first_of_stage_1)))
        out = self.open(path).attributes
        for share in json.loads(out["data-forward"]):
            self.assertAlmostEqual(share, 0.5, delta=0.26)
        tips = json.loads(out["data-tips"])
        self.assertEqual(len(tips), 2 * len(wanted))
        for tip, event in zip(tips, (chosen + [None]) * 2):
            rank, stage = event[:2] if event else idle[0][:2]
            self.assertIn(f"rank {rank}, stage {stage}: ", tip["text"])
            self.assertEqual(tip["painted"], timeline["activities"][event[2]] if event else "idle", tip["text"])
            start, end = event[5:7] if event else (idle[0][6], idle[1][5])
            times = re.search(r"(.*) to (.*): (.*)", tip["text"].splitlines()[1] if "\n" in tip["text"] else tip["text"])
            self.assertTrue(times, tip["text"])
            for text, value in zip(times.groups(), (start, end, end - start)):
                shown, slack = shown_value(text, "ns")
                self.assertAlmostEqual(shown, value, delta=slack + 1, msg=tip["text"])
            if event and event[4] >= 0:
                self.assertIn(f" of slot {event[4]}\n", tip["text"])
                self.assertIn(f"micro-batch {event[3]} of the rank, chunk {event[7]} of the device", tip["text"])

    def test_runs_plans_and_timelines_share_a_page(self):
        run, lines = self.make_run("mixed", 6, steps=3)
        file, timeline = self.timeline("with-a-run", "hdp")
        page = self.open(self.page("mixed.html", run, "--plan", self.folder / "static512.plan", "--timeline", file), "#theme=dark")
        self.check_run(page, 0, run, lines)
        self.check_plan(page, 0, self.plans["hdp512"])
        self.check_plan(page, 1, self.plans["static512"])
        self.check_timeline(page, 0, timeline)

    def make_run(self, name, seed, steps=12, cut=False):
        rng = random.Random(seed)
        run = self.folder / name
        shutil.rmtree(run, ignore_errors=True)
        (run / "plans").mkdir(parents=True)
        shutil.copy(self.folder / "hdp512.plan", run / "plans" / "step-000000.plan")
        (run / "config.toml").write_text(f"[plan]\nstrategy = \"{name}\"\ncapacity = 8192\n[train]\nranks = {100 + seed}\n")
        shutil.copy(pathlib.Path(__file__).resolve().parents[3] / "configs/cost/reference-7b.json", run / "cost.json")
        lines = []
        for step in range(steps):
            phases = {key: rng.uniform(0.001, 2) for key in PHASES}
            lines.append({"schema": "weft.metrics.v1", "step": step, "loss": rng.uniform(1, 6), "grad_norm": rng.uniform(0.1, 3), "lr": 1e-3 * (step + 1),
                          "tokens": rng.randrange(20000, 40000), "target_tokens": 19999, "padded_tokens": 0, "tokens_per_s": rng.uniform(9000, 12000),
                          "mfu": rng.uniform(0.3, 0.5), "step_s": sum(phases.values()), **phases, "imbalance": rng.uniform(1, 1.3), "slowest_rank": 1,
                          "gap": rng.uniform(0, 0.02), "predicted_s": 1.5, "exchange_bytes": rng.randrange(1 << 40), "peak_bytes": rng.randrange(1 << 34),
                          "sharded_sequences": rng.randrange(9), "max_degree": 4, "skipped_steps": 0, "dropped_sequences": 2,
                          "plan_hash": self.plans["hdp512"].get("hash", "x"), "resumed_at": None})
        lines[1]["loss"] = None
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (run / "metrics.jsonl").write_text(text + ('{"schema":"weft.met' if cut else ""))
        return run, lines

    def check_run(self, page, i, run, lines):
        def median(key):
            values = sorted(line[key] for line in lines)
            middle = len(values) // 2
            return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2
        expected = {"loss_last": lines[-1]["loss"], "loss_first": lines[0]["loss"], "steps": len(lines), "dropped_sequences": 2,
                    "tokens_total": sum(line["tokens"] for line in lines), "peak_bytes_max": max(line["peak_bytes"] for line in lines),
                    "exchange_bytes_mean": sum(line["exchange_bytes"] for line in lines) / len(lines),
                    **{f"{key}_median": median(key) for key in ("tokens_per_s", "mfu", "step_s", "imbalance", "gap")}}
        for key, value in expected.items():
            shown = self.value(page, f"run.{i}.{key}.table")
            self.assertAlmostEqual(shown, value, delta=1e-12 * abs(value), msg=key)
        for key in PHASES:
            value = sum(line[key] for line in lines) / len(lines)
            self.assertAlmostEqual(self.value(page, f"run.{i}.{key}_mean"), value, delta=1e-9)
        self.assertEqual(page.numbers[f"run.{i}.strategy"][2], run.name)

    def test_runs_stand_side_by_side_with_the_numbers_of_their_metrics(self):
        runs = [self.make_run("one", 1), self.make_run("two", 2, steps=7, cut=True)]
        path = self.page("runs.html", *(run for run, _ in runs))
        page = self.open(path)
        for i, (run, lines) in enumerate(runs):
            self.check_run(page, i, run, lines)
            self.assertEqual(self.value(page, f"run.{i}.ranks"), 101 + i)
        self.check_plan(page, 0, self.plans["hdp512"])
        self.assertIn("last line of metrics.jsonl has no end", path.read_text())

    def test_a_dark_page_has_the_same_numbers(self):
        run, lines = self.make_run("dark", 3, steps=4)
        page = self.open(self.page("dark.html", run, "--steps", 0), "#theme=dark")
        self.assertEqual(page.attributes["data-theme"], "dark")
        self.check_run(page, 0, run, lines)

    def test_a_chrome_trace_has_every_micro_batch(self):
        trace = self.folder / "trace.json"
        made = weft("report", "--plan", self.folder / "hdp512.plan", "--chrome-trace", trace)
        self.assertEqual(made.returncode, 0, made.stderr)
        events = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
        plan = self.plans["hdp512"]
        self.assertEqual(sum(e["args"]["tokens"] for e in events), sum(s["tokens"] for s in plan["sequences"]))
        self.assertAlmostEqual(max(e["ts"] + e["dur"] for e in events), plan["makespan_ns"] / 1e3, delta=0.01)

    def test_wrong_use_is_refused_with_what_to_do(self):
        run, _ = self.make_run("wrong", 4)
        (run / "cost.json").unlink()
        out = self.folder / "never.html"
        plan, (timeline, _) = self.folder / "hdp512.plan", self.timeline("refused", "hdp")
        for arguments, words in [
                (["--out", out], "nothing to show"),
                (["--plan", plan], "--out FILE is missing"),
                ([self.folder / "absent", "--out", out], "no metrics.jsonl"),
                ([run, "--out", out], "no cost.json"),
                (["--plan", self.folder / "absent.plan", "--out", out], "absent.plan"),
                (["--plan", plan, "--cost", plan, "--out", out], "hdp512.plan"),
                (["--plan", plan, "--plan", plan, "--chrome-trace", out], "2 are given"),
                (["--timeline", self.folder / "absent.json", "--out", out], "absent.json"),
                (["--timeline", plan, "--out", out], "hdp512.plan': not JSON"),
                (["--timeline", plan, "--out", out], "weft simulate --timeline saved"),
                (["--timeline", run / "metrics.jsonl", "--out", out], "metrics.jsonl"),
                (["--timeline", run, "--out", out], "wrong"),
                (["--timeline", timeline, "--chrome-trace", out], "weft simulate --trace"),
                (["--plan", timeline, "--out", out], "refused.json"),
                ([run, "--steps", "-1", "--out", out], "--steps")]:
            refused = weft("report", *arguments)
            self.assertEqual(refused.returncode, 2, (arguments, refused.stdout))
            self.assertIn(words, refused.stderr)
            self.assertFalse(out.exists())
        (run / "metrics.jsonl").write_text('{"schema":"weft.metrics.v1"}\n')
        refused = weft("report", run, "--out", out)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("metrics.jsonl:1: no \"step\"", refused.stderr)


if __name__ == "__main__":
    WEFT = sys.argv.pop(1)
    if CHROMIUM is None:
        print("skipped: no chromium, chromium-browser or google-chrome on PATH; install Debian's chromium (docs/testing.md)")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
