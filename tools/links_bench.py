#!/usr/bin/env python3
"""Rows `links/...` of ./run bench: two hosts (network namespaces, one MPI rank and one core each) over a really shaped link.

Usage: links_bench.py BUILD_DIR [--list] [NAME...]. For each speed of the link: `weft profile` over it, then the same steps
trained under `static` (every sequence over both ranks) and under `hdp` (short ones whole), several times, and both predicted
by `weft simulate` from the cost file. A sample is the mean over the steps of one run, so all samples and the limit are of the
same steps; `worst_step` is the largest error of the prediction of any one step of any run. The row `links/RATE/speedup` is
hdp over static as measured; its limit is the predicted one.
Prints one JSON object a line; where hosts cannot be made, a reason on stderr and no rows.
"""

import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import mixed_steps
import two_hosts

RATES = {"1gbit": "1gbit", "200mbit": "200mbit"}
STRATEGIES = ("static", "hdp")
STEPS, RUNS, KV_HEADS = 5, 3, 4
LIMIT_S = 400  # of one job


def draw_length(rng):
    return int(min(8000, rng.lognormvariate(6.0, 1.4)) + 1)


def rows_of(rate):
    return [f"links/{rate}/{name}" for name in (*STRATEGIES, "speedup")]


class Links:
    def __init__(self, build, folder, hosts, rate):
        self.weft, self.engine = build / "weft", build / "weft-engine"
        self.folder, self.hosts, self.rate = folder, hosts, rate
        self.config, self.cost = folder / "links.toml", folder / f"{rate}.json"
        hosts.shape(RATES[rate])

    def job(self, *arguments):
        job = self.hosts.start([self.engine, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            said, _ = job.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            job.terminate()
            raise SystemExit(f"{arguments[0]} over {self.rate} has not ended within {LIMIT_S} s") from None
        if job.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, arguments))}\n{said}")

    def profile(self):
        self.job("profile", "--config", self.config, "--out", self.cost, "--seconds", "15")

    def measured(self, strategy):
        """Lines of metrics.jsonl."""
        out = self.folder / f"{self.rate}-{strategy}"
        shutil.rmtree(out, ignore_errors=True)  # of the run before
        self.job("train", "--config", self.config, "--train.out", out, "--plan.strategy", strategy, "--plan.cost", self.cost)
        return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]

    def rows(self):
        self.profile()
        predicted = {strategy: mixed_steps.predicted_steps(self.weft, self.cost, self.folder / "links", 2, strategy, STEPS)
                     for strategy in STRATEGIES}
        runs = {strategy: [] for strategy in STRATEGIES}
        for _ in range(RUNS):  # in turns: a slow minute of the machine falls on both
            for strategy in STRATEGIES:
                runs[strategy].append(self.measured(strategy))
        yield from rows_of_runs(self.rate, runs, predicted)


def rows_of_runs(rate, runs, predicted):
    """runs [strategy][run][step]: lines of metrics.jsonl. Step 0 is left out: it brings code and small tensors in."""
    pairs = {strategy: [list(mixed_steps.paired_steps(run, predicted[strategy], 1, f"{rate} {strategy}"))
                        for run in runs[strategy]] for strategy in STRATEGIES}
    means = {strategy: [statistics.mean(measured for measured, _ in run) for run in pairs[strategy]] for strategy in STRATEGIES}
    limits = {strategy: statistics.mean(limit for _, limit in pairs[strategy][0]) for strategy in STRATEGIES}
    for strategy in STRATEGIES:
        worst = max((limit / measured - 1 for run in pairs[strategy] for measured, limit in run), key=abs)
        yield dict(row(f"links/{rate}/{strategy}", "s", means[strategy], "lower", limits[strategy]), worst_step=worst)
    ratios = [static / hdp for static, hdp in zip(means["static"], means["hdp"])]
    yield row(f"links/{rate}/speedup", "x", ratios, "higher", limits["static"] / limits["hdp"])


def row(name, unit, samples, better, predicted):
    middle = statistics.median(samples)
    return {"name": name, "value": middle, "unit": unit, "better": better, "samples": len(samples), "min": min(samples),
            "p50": middle, "max": max(samples), "limit": predicted, "limit_name": "predicted",
            "share": middle / predicted}


def main():
    build, arguments = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    prefixes = [argument for argument in arguments if argument != "--list"]
    chosen = [rate for rate in RATES
              if not prefixes or any(name.startswith(prefix) for prefix in prefixes for name in rows_of(rate))]
    if "--list" in arguments:
        print("\n".join(name for rate in chosen for name in rows_of(rate)))
        return 0
    try:
        hosts = two_hosts.TwoHosts(one_core_each=True)
    except two_hosts.NoHosts as reason:
        print(f"links: {reason}", file=sys.stderr)
        return 0
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            mixed_steps.make_corpus(build / "weft", folder, "links", draw_length, STEPS, KV_HEADS)
            for rate in chosen:
                for one in Links(build, folder, hosts, rate).rows():
                    print(json.dumps(one), flush=True)
    except two_hosts.NoHosts as reason:
        print(f"links: {reason}", file=sys.stderr)
    finally:
        hosts.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
