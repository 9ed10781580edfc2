"""What measures a run: --trace, weft profile, --virtual-ranks."""

import json
import os
import sys
import unittest

import runs

BUILD = sys.argv.pop(1) if len(sys.argv) > 1 else "build/release"


class Measuring(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runs = runs.Runs(BUILD)
        cls.config = cls.runs.folder / "measured.toml"
        cls.config.write_text(runs.CONFIG.format(corpus=cls.runs.corpus, steps=3, save_interval=0))

    @classmethod
    def tearDownClass(cls):
        cls.runs.remove()

    def train(self, name, *arguments):
        out = self.runs.folder / name
        result = self.runs.weft("train", "--config", self.config, "--train.out", out, *arguments)
        return out, result

    def losses(self, out):
        return [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()]

    def refused(self, result, *parts):
        self.assertEqual(result.returncode, runs.USAGE, result.stdout + result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_a_traced_step_is_a_chrome_trace_of_all_ranks_and_a_table(self):
        out, result = self.train("traced", "--ranks", "3", "--trace", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        events = json.loads((out / "trace" / "step-000001.json").read_text())["traceEvents"]
        self.assertEqual({event["pid"] for event in events}, {0, 1, 2})
        self.assertTrue(any(event["name"] == "mlp.gate_up_proj forward" for event in events))
        for line in ("trace   step 1, mean of 3 ranks", "matrix products", "attention", "between operations"):
            self.assertIn(line, result.stdout)
        _, late = self.train("late", "--trace", "3")
        self.refused(late, "--trace 3: this run has steps 0 to 2")

    def test_a_trace_of_virtual_ranks_is_by_their_clocks(self):
        """Not by the wall's, on which each waits while six others compute."""
        link = ("--link-bandwidth", "1G", "--link-latency", "10us")
        out, result = self.train("virtual-trace", "--virtual-ranks", "7", "--trace", "1", *link)
        self.assertEqual(result.returncode, 0, result.stderr)
        events = json.loads((out / "trace" / "step-000001.json").read_text())["traceEvents"]
        step = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()][1]
        ends = [1e-6 * (event["ts"] + event["dur"]) for event in events if "dur" in event]
        self.assertLess(max(ends), 1.2 * step["step_s"])

    def test_a_profile_is_a_cost_file_that_training_takes(self):
        cost = self.runs.folder / "cost.json"
        link = ("--link-bandwidth", "1G", "--link-latency", "10us")
        self.refused(self.runs.weft("profile", "--config", self.config, "--out", cost, "--train.threads_per_rank", "2", *link),
                     "train.threads_per_rank is 2")
        cluster = self.runs.folder / "here.json"
        result = self.runs.weft("profile", "--config", self.config, "--out", cost, "--cluster-out", cluster, "--seconds", "0.5", *link)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.cluster_file_is_of_this_machine(cluster, cost)
        self.assertIn("the fit is off by", result.stdout)
        fitted = json.loads(cost.read_text())
        self.assertEqual(fitted["num_layers"], 2)
        self.assertIn(" 1 compute threads", fitted["source"])  # as virtual ranks have, whatever the cores
        self.assertGreater(fitted["linear_ns_per_token"] + fitted["fixed_ns"], 0)
        self.assertGreater(fitted["hop_ns_per_token"] + fitted["hop_fixed_ns"], 0)
        self.assertGreater(fitted.get("reduce_ns_per_byte", 0) + fitted.get("reduce_fixed_ns", 0), 0)
        self.assertGreater(fitted["optimizer_ns_per_byte"], 0)
        self.assertGreater(fitted["spread_ns"], 0)  # no two runs take equal time
        out, trained = self.train("profiled", "--virtual-ranks", "3", "--plan.cost", cost, "--plan.capacity", "256")
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertIn("cost model measured", trained.stdout)
        self.simulator_predicts_the_same_steps(out, cost)
        self.refused(self.runs.weft("profile", "--config", self.config), "--out")
        self.refused(self.runs.weft("profile", "--config", self.config, "--out", cost, "--model.hiden_size", "8"),
                     "hidden_size")
        nowhere = self.runs.weft("profile", "--config", self.config, "--out", self.runs.folder / "no" / "cost.json")
        self.refused(nowhere, "no/cost.json")
        self.assertNotIn("runs", nowhere.stdout)  # nothing was measured first
        double = self.runs.weft("profile", "--config", self.config, "--out", cost, "--cluster-out", cluster, "--train.dtype", "float64")
        self.refused(double, "--cluster-out needs train.dtype float32")
        self.assertNotIn("runs", double.stdout)

    def cluster_file_is_of_this_machine(self, cluster, cost):
        """Another model on it, which the machine could hold or not; the profile's own rates."""
        found, fitted = json.loads(cluster.read_text()), json.loads(cost.read_text())
        self.assertIn(found["devices_per_node"], range(1, len(os.sched_getaffinity(0)) + 1))
        self.assertAlmostEqual(found["node_link_bytes_per_second"],
                               1e9 * fitted["kv_bytes_per_token"] / fitted["hop_ns_per_token"], delta=1)
        simulated = self.runs.weft("simulate", "--model", "llama-7b", "--cluster", cluster, "--dtype", "float32", "--ranks", "1",
                                   "--workload", "github", "--context", "8K", "--global-batch-tokens", "16K", "--capacity", "8K", "--json")
        self.assertEqual(simulated.returncode, 0, simulated.stderr)

    def simulator_predicts_the_same_steps(self, out, cost):
        """Same plans, same bytes, from the cost file alone."""
        simulated = self.runs.weft("simulate", "--cost", cost, "--ranks", "3", "--capacity", "256", "--corpus", self.runs.corpus,
                                   "--global-batch-tokens", "1024", "--max-context", "512", "--over-long", "split",
                                   "--strategy", "hdp", "--batches", "3", "--json")
        self.assertEqual(simulated.returncode, 0, simulated.stderr)
        steps = json.loads(simulated.stdout)["steps"]
        trained = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(len(steps), len(trained))
        self.assertGreater(max(step["exchange_bytes"] for step in steps), 0)
        for predicted, measured in zip(steps, trained):
            self.assertEqual(predicted["exchange_bytes"], measured["exchange_bytes"])
            self.assertEqual(predicted["reduction_bytes"], measured["reduce_bytes"])
            self.assertAlmostEqual(predicted["planned_s"], measured["predicted_s"], places=9)
            self.assertGreater(predicted["step_s"], predicted["micro_batches_s"])

    def test_virtual_ranks_train_the_losses_of_threads_and_slow_links_show(self):
        threads, result = self.train("threads", "--ranks", "4", "--plan.capacity", "128")
        self.assertEqual(result.returncode, 0, result.stderr)
        link = ("--link-bandwidth", "1M", "--link-latency", "5ms")
        virtual, result = self.train("virtual", "--virtual-ranks", "4", "--plan.capacity", "128", *link)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("4 virtual ranks, links of 0.001 GB/s and 5000 us", result.stdout)
        self.assertEqual(self.losses(virtual), self.losses(threads))
        steps = [json.loads(line) for line in (virtual / "metrics.jsonl").read_text().splitlines()]
        # Messages of the reduction alone: gradients of 22 thousand parameters, at least once over a link.
        for step in steps:
            self.assertGreater(step["reduce_s"], 4 * 22e3 / 4 / 1e6)

    def test_links_and_virtual_ranks_that_make_no_sense_are_refused(self):
        for arguments, part in {("--link-bandwidth", "1G"): "--virtual-ranks N",
                                ("--virtual-ranks", "2", "--link-bandwidth", "0"): "--link-bandwidth is '0'",
                                ("--virtual-ranks", "2", "--link-bandwidth", "4X"): "--link-bandwidth is '4X'",
                                ("--virtual-ranks", "2", "--link-latency", "20"): "--link-latency is '20'",
                                ("--virtual-ranks", "2", "--ranks", "3"): "give one of them",
                                ("--virtual-ranks", "2", "--train.threads_per_rank", "2"): "one thread each",
                                ("--virtual-ranks", "0"): "--virtual-ranks"}.items():
            _, result = self.train("refused", *arguments)
            self.refused(result, part)


if __name__ == "__main__":
    unittest.main(verbosity=2)
