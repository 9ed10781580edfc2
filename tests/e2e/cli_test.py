#!/usr/bin/env python3
"""Both programs as a user runs them: exit codes, messages, files. Usage: cli_test.py BUILD_DIR"""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()

CONFIG = """
[model]
num_layers = 2
hidden_size = 32
num_heads = 4
num_kv_heads = 2
head_dim = 8
intermediate_size = 64
[data]
corpus = "{corpus}"
global_batch_tokens = 2048
max_context = 1024
over_long = "split"
[plan]
capacity = 512
[optimizer]
lr = 3e-3
warmup_steps = 2
[train]
steps = 6
ranks = 3
out = "{out}"
"""


def weft(*arguments, env=None, timeout=120):
    environment = dict(os.environ, CI="1", **(env or {}))
    return subprocess.run([str(BUILD / "weft"), *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, env=environment)


class CommandLine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft_e2e_"))
        sources = cls.folder / "sources"
        sources.mkdir()
        for i, length in enumerate([1, 2, 40, 300, 511, 512, 513, 1023, 1024, 1025, 3000, 700, 90, 15]):
            text = "".join(chr(97 + (i * 7 + j * j // 5) % 26) for j in range(length))
            (sources / f"{i:02}.txt").write_text(text)
        cls.corpus = cls.folder / "corpus"
        built = weft("corpus", "build", "--out", cls.corpus, sources)
        assert built.returncode == 0, built.stderr

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def config(self, name):
        path = self.folder / f"{name}.toml"
        path.write_text(CONFIG.format(corpus=self.corpus, out=self.folder / name))
        return path

    def train(self, name, *arguments, env=None):
        return weft("train", "--config", self.config(name), *arguments, env=env)

    def metrics(self, name):
        return [json.loads(line) for line in (self.folder / name / "metrics.jsonl").read_text().splitlines()]

    def test_version_starts_without_torch_in_milliseconds(self):
        times = []
        for _ in range(5):
            start = time.monotonic()
            shown = weft("--version")
            times.append(time.monotonic() - start)
            self.assertEqual(shown.returncode, 0)
            self.assertRegex(shown.stdout, r"^weft \d+\.\d+\.\d+ \(build [0-9a-f]{12}\)")
        print(f"weft --version: fastest of 5 {min(times) * 1e3:.1f} ms", file=sys.stderr)
        if "ASAN_OPTIONS" not in os.environ:  # a sanitizer's start alone takes longer
            self.assertLess(min(times), 0.05)
        linked = subprocess.run(["ldd", str(BUILD / "weft")], capture_output=True, text=True).stdout
        self.assertNotIn("torch", linked)
        self.assertNotIn("mpi", linked)

    def test_misspelt_command_names_the_nearest(self):
        result = weft("trian")
        self.assertEqual(result.returncode, 2)
        self.assertIn("did you mean 'train'", result.stderr)

    def test_misspelt_option_names_the_nearest(self):
        result = weft("corpus", "build", "--outt", "x", "y")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--out", result.stderr)

    def test_misspelt_key_exits_2_and_names_the_nearest(self):
        for override, nearest in [("--optimizer.learning_rat", "lr"), ("--train.stepz", "'steps' in [train]"),
                                  ("--plan.strategi", "'strategy' in [plan]")]:
            result = self.train("misspelt", override, "1")
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(override.lstrip("-"), result.stderr)
            self.assertIn(nearest, result.stderr)
            self.assertFalse((self.folder / "misspelt").exists())

    def test_training_writes_metrics_weights_and_the_effective_configuration(self):
        result = self.train("whole", "--optimizer.lr", "2e-3")
        self.assertEqual(result.returncode, 0, result.stderr)
        steps = self.metrics("whole")
        self.assertEqual([s["step"] for s in steps], list(range(6)))
        self.assertLess(steps[-1]["loss"], steps[0]["loss"])
        for s in steps:
            phases = sum(s[k] for k in ("plan_s", "data_s", "forward_s", "backward_s", "exchange_s", "reduce_s",
                                        "optimizer_s"))
            self.assertAlmostEqual(phases, s["step_s"], delta=0.02 * s["step_s"])
            self.assertLessEqual(s["tokens"], 2048)
            self.assertEqual(s["padded_tokens"], 0)
        effective = (self.folder / "whole" / "config.toml").read_text()
        self.assertIn("0.002", effective)
        self.assertIn(effective.strip(), result.stdout)
        with open(self.folder / "whole" / "model.safetensors", "rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            header = json.loads(file.read(size))
        self.assertIn("model.layers.1.self_attn.q_proj.weight", header)
        self.assertNotIn("lm_head.weight", header)  # tied: stored once
        self.assertEqual(json.loads((self.folder / "whole" / "config.json").read_text())["num_key_value_heads"], 2)

    def test_strategies_and_rank_counts_give_the_same_losses(self):
        reference = None
        for name, options in {"one": ["--ranks", "1", "--plan.capacity", "1024"],
                              "static4": ["--ranks", "4", "--plan.strategy", "static"],
                              "naive3": ["--plan.strategy", "hdp-naive"], "hdp2": ["--ranks", "2"]}.items():
            result = self.train(name, *options)
            self.assertEqual(result.returncode, 0, result.stderr)
            losses = [s["loss"] for s in self.metrics(name)]
            reference = reference or losses
            for a, b in zip(losses, reference):
                self.assertAlmostEqual(a, b, delta=1e-3)

    def test_a_finished_run_trains_nothing_again_and_goes_on_when_asked_for_more(self):
        self.assertEqual(self.train("twice", "--train.steps", "2").returncode, 0)
        before = (self.folder / "twice" / "metrics.jsonl").read_bytes()
        again = self.train("twice", "--train.steps", "2")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("step 2 of 2", again.stdout)
        self.assertEqual((self.folder / "twice" / "metrics.jsonl").read_bytes(), before)
        fewer = self.train("twice", "--train.steps", "1")
        self.assertEqual(fewer.returncode, 2)
        self.assertIn("is at step 2 already", fewer.stderr)
        more = self.train("twice", "--train.steps", "3")
        self.assertEqual(more.returncode, 0, more.stderr)
        self.assertIn("train.steps: was 2, is 3", more.stdout)
        self.assertEqual([s["step"] for s in self.metrics("twice")], [0, 1, 2])

    def test_a_sequence_beyond_all_ranks_is_refused_with_the_ranks_that_would_fit(self):
        result = self.train("toolong", "--plan.capacity", "100")
        self.assertEqual(result.returncode, 2)
        self.assertIn("11 ranks", result.stderr)  # ceil(1024 / 100)
        self.assertFalse((self.folder / "toolong").exists())

    def test_saved_plans_replay_to_the_same_losses(self):
        self.assertEqual(self.train("saved", "--save-plans").returncode, 0)
        replayed = self.train("replayed", "--plan", self.folder / "saved" / "plans")
        self.assertEqual(replayed.returncode, 0, replayed.stderr)
        keep = lambda name: [(s["loss"], s["plan_hash"]) for s in self.metrics(name)]
        self.assertEqual(keep("replayed"), keep("saved"))
        other_data = self.train("otherdata", "--plan", self.folder / "saved" / "plans", "--data.seed", "5")
        self.assertEqual(other_data.returncode, 2)
        self.assertIn("plans other sequences", other_data.stderr)
        other_ranks = self.train("otherranks", "--plan", self.folder / "saved" / "plans", "--ranks", "2")
        self.assertEqual(other_ranks.returncode, 2)
        self.assertIn("--ranks 3", other_ranks.stderr)

    def test_a_replay_takes_capacity_and_strategy_from_the_plan_but_not_another_weighting(self):
        self.assertEqual(self.train("sample", "--save-plans", "--data.weighting", "sample").returncode, 0)
        plans = self.folder / "sample" / "plans"
        other = self.train("token", "--plan", plans)
        self.assertEqual(other.returncode, 2)
        self.assertIn("data.weighting", other.stderr)
        again = self.train("again", "--plan", plans, "--data.weighting", "sample", "--plan.capacity", "8")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("replayed from", again.stdout)

    def test_a_device_is_never_replaced_by_a_file(self):
        lengths = self.folder / "few.txt"
        lengths.write_text("10\n")
        for target in ("/dev/null", "/dev/full"):
            result = weft("plan", "--lengths", lengths, "--ranks", "1", "--capacity", "16", "--out", target)
            self.assertEqual(result.returncode, 2)
            self.assertIn("not a regular file", result.stderr)
            self.assertFalse(pathlib.Path(target).is_file())

    def test_a_damaged_plan_is_refused_by_name(self):
        self.assertEqual(self.train("damaged", "--save-plans", "--train.steps", "1").returncode, 0)
        plan = self.folder / "damaged" / "plans" / "step-000000.plan"
        content = bytearray(plan.read_bytes())
        content[len(content) // 2] ^= 1
        plan.write_bytes(content)
        result = self.train("fromdamaged", "--train.steps", "1", "--plan", plan)
        self.assertEqual(result.returncode, 2)
        self.assertIn("checksum", result.stderr)
        self.assertIn("step-000000.plan", result.stderr)

    def test_another_build_of_the_engine_is_refused(self):
        result = subprocess.run([str(BUILD / "weft-engine"), "train", "--config", "x"], capture_output=True, text=True,
                                env=dict(os.environ, WEFT_BUILD_ID="0123456789ab"), timeout=60)
        self.assertEqual(result.returncode, 2)
        self.assertIn("0123456789ab", result.stderr)

    def test_a_launcher_that_cannot_be_joined_is_an_error_and_not_n_runs(self):
        torchrun = {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "4",
                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        result = self.train("launched", env=torchrun)
        self.assertEqual(result.returncode, 2)
        self.assertIn("torchrun", result.stderr)
        self.assertIn("--launch mpi --ranks 4", result.stderr)
        self.assertFalse((self.folder / "launched").exists())

    @unittest.skipUnless("avx2" in pathlib.Path("/proc/cpuinfo").read_text(), "a CPU without AVX2")
    def test_blas_code_from_before_avx2_runs_only_when_it_is_asked_for(self):
        def blas(name, **environment):
            result = self.train(name, "--train.steps", "1", env=environment)
            self.assertEqual(result.returncode, 0, result.stderr)
            return next(line for line in result.stdout.splitlines() if line.startswith("ranks  "))
        asked = blas("asked", OPENBLAS_CORETYPE="Prescott")
        if "DYNAMIC_ARCH" not in asked:
            self.skipTest(asked)
        self.assertIn("Prescott", asked)
        self.assertNotIn("its own choice", asked)
        if "OPENBLAS_CORETYPE" in os.environ:
            self.skipTest("OPENBLAS_CORETYPE is set")
        chosen = blas("own").split("(its own choice")[0]
        for core in ("Prescott", "Core2", "Nehalem", "Sandybridge"):
            self.assertNotIn(core, chosen)

    def test_plan_prints_ranks_and_streams_json(self):
        lengths = self.folder / "lengths.txt"
        lengths.write_text("# lengths\n6000\n" + "100\n" * 20)
        shown = weft("plan", "--lengths", lengths, "--ranks", "6", "--capacity", "1024")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        for word in ("makespan", "lower bound", "gap"):
            self.assertIn(word, shown.stdout)
        streamed = weft("plan", "--lengths", lengths, "--ranks", "6", "--capacity", "1024", "--json")
        plan = json.loads(streamed.stdout)
        self.assertEqual(plan["num_ranks"], 6)
        self.assertEqual(len(plan["sequences"]), 21)

    def test_plan_for_pipelines_states_its_stages_and_refuses_more_than_there_are_layers(self):
        lengths = self.folder / "piped.txt"
        lengths.write_text("6000\n" + "700\n" * 40)
        plan = ("plan", "--lengths", lengths, "--ranks", "6", "--capacity", "1024", "--pipeline-stages")
        shown = weft(*plan, "4")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("every rank is 4 stages, 24 devices in all", shown.stdout)
        made = json.loads(weft(*plan, "4", "--json").stdout)
        self.assertEqual((made["version"], made["pipeline_stages"]), (3, 4))
        made = json.loads(weft(*plan, "4", "--virtual-stages", "2", "--json").stdout)
        self.assertEqual((made["version"], made["pipeline_stages"], made["virtual_stages"]), (4, 4, 2))
        self.assertIn("4 stages of 2 virtual ones", weft(*plan, "4", "--virtual-stages", "2").stdout)
        refused = weft(*plan, "4", "--virtual-stages", "3")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("4 pipeline stages of 3 virtual stages each do not divide the 32 layers", refused.stderr)
        for stages, words in (("33", "33 pipeline stages for the 32 layers"), ("0", "--pipeline-stages")):
            refused = weft(*plan, stages)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(words, refused.stderr)

    def test_a_plan_is_the_same_for_any_number_of_threads(self):
        lengths = self.folder / "many.txt"
        lengths.write_text("40000\n" + "".join(f"{1 + 37 * i % 4000}\n" for i in range(3000)))
        plan = ("plan", "--lengths", lengths, "--ranks", "4100", "--capacity", "8K", "--json", "--threads")
        one = weft(*plan, "1")
        self.assertEqual(one.returncode, 0, one.stderr)
        for num_threads in ("2", "3", "7"):
            self.assertEqual(weft(*plan, num_threads).stdout, one.stdout)
        refused = weft(*plan, "0")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--threads", refused.stderr)

    def test_plan_with_offload_needs_a_cost_that_says_how_fast_and_says_what_it_offloads(self):
        lengths = self.folder / "offloaded.txt"
        lengths.write_text("131072\n" + "700\n" * 40)
        plan = ("plan", "--lengths", lengths, "--ranks", "8", "--capacity", "8K", "--offload")
        refused = weft(*plan)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("activation_bytes_per_token", refused.stderr)
        cost = pathlib.Path(__file__).resolve().parents[2] / "configs" / "cost" / "reference-7b-offload.json"
        shown = weft(*plan, "--cost", cost)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("offload        ", shown.stdout)
        about = json.loads(weft(*plan, "--cost", cost, "--explain", "0", "--json").stdout)["explanation"]
        self.assertGreater(about["offload_ratio"], 0)
        self.assertLess(about["degree"], about["least_degree"])

    def test_a_wrong_value_names_its_range_and_suggests_no_other_option(self):
        plan = ["plan", "--workload", "github", "--context", "8K", "--global-batch-tokens", "64K", "--ranks", "8"]
        wrong = weft(*plan, "--batches", "0")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("not in range 1 to ", wrong.stderr)
        self.assertNotIn("did you mean", wrong.stderr)
        self.assertIn("did you mean '--workload' instead of '--worklod'", weft("plan", "--worklod", "github").stderr)

    def test_plan_explains_one_sequence_as_text_and_as_json(self):
        lengths = self.folder / "explained.txt"
        lengths.write_text("6000\n" + "100\n" * 20)
        plan = ("plan", "--lengths", lengths, "--ranks", "6", "--capacity", "1024")
        shown = weft(*plan, "--explain", "0")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        for line in ("sequence 0     6000 tokens, number 1 of 21", "degree         6 (at least 6)", "bound driven", "micro-batch"):
            self.assertIn(line, shown.stdout)
        made = json.loads(weft(*plan, "--explain", "7", "--json").stdout)
        self.assertEqual(made["num_ranks"], 6)
        self.assertEqual(made["explanation"]["id"], 7)
        self.assertEqual(sum(part["tokens"] for part in made["explanation"]["parts"]), 100)
        for sequence in ("21", "-1"):
            unknown = weft(*plan, "--explain", sequence)
            self.assertEqual(unknown.returncode, 2)
            self.assertIn("ids from 0 to 20", unknown.stderr)
            self.assertEqual(unknown.stdout, "")
        several = weft(*plan, "--explain", "0", "--compare")
        self.assertEqual(several.returncode, 2)
        self.assertIn("--explain", several.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
