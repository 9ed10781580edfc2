#!/usr/bin/env python3
"""Predicted against measured step time of `weft train --virtual-ranks`, after `weft profile` alone.

    bench/virtual_table.py build/release [--ranks 2,4,8,16,32] [--links 10G:10us,1G:50us,100M:100us]
                           [--strategies static,hdp-naive,hdp] [--steps 3] [--seconds 20]

Two length mixes of random text, both up to 8K tokens, 32K tokens a step. For each link a profile of its own; then each step
but the first (which touches fresh memory) is measured on the ranks' own clocks and predicted by `weft simulate --cost`, which
makes the same plans and sees nothing else. The link `mpi` is two real ranks as MPI processes of this machine, profiled and
timed by the wall clock. One Markdown row for each combination, then the errors' mean and worst. Measure on an idle machine:
CPU time itself grows when other programs share the caches.
"""

import argparse
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from mixed_steps import make_corpus, predicted_steps, run  # noqa: E402

KV_HEADS = 2
MPI = "mpi"


def skewed(rng):
    return int(min(8000, rng.lognormvariate(6.5, 1.4)) + 1)


def bimodal(rng):
    return rng.randint(4000, 8000) if rng.random() < 0.03 else rng.randint(40, 400)


MIXES = {"skewed": skewed, "bimodal": bimodal}


def link_options(link):
    bandwidth, latency = link.split(":")
    return ["--link-bandwidth", bandwidth, "--link-latency", latency]


def profile(weft, config, link, cost, seconds):
    launcher = ["mpirun", "--bind-to", "none", "-n", "2"] if link == MPI else []
    run(*launcher, weft, "profile", "--config", config, "--out", cost, "--seconds", seconds,
        *([] if link == MPI else link_options(link)))


class Case:
    def __init__(self, weft, folder, mix, link, ranks, cost, steps):
        self.weft, self.folder, self.mix, self.ranks, self.cost, self.steps = weft, folder, mix, ranks, cost, steps
        self.link = link

    def measured(self, strategy):
        out = self.folder / f"run-{self.mix}-{self.ranks}-{strategy}-{self.link.split(':')[0]}"
        ranks = ["--launch", "mpi", "--ranks"] if self.link == MPI else [*link_options(self.link), "--virtual-ranks"]
        run(self.weft, "train", "--config", self.folder / f"{self.mix}.toml", "--train.out", out, "--train.steps", self.steps,
            "--plan.strategy", strategy, "--plan.cost", self.cost, *ranks, self.ranks)
        return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]

    def predicted(self, strategy):
        return predicted_steps(self.weft, self.cost, self.folder / self.mix, self.ranks, strategy, self.steps)

    def rows(self, strategy):
        """(measured s, predicted s) of every step but the first."""
        for measured, predicted in list(zip(self.measured(strategy), self.predicted(strategy)))[1:]:
            same_plan = abs(measured["predicted_s"] - predicted["planned_s"]) < 1e-6
            same_bytes = measured["exchange_bytes"] == predicted["exchange_bytes"]
            if not same_plan or not same_bytes:
                raise SystemExit(f"{self.mix} {self.ranks} {strategy} step {measured['step']}: the simulator planned another "
                                 f"step: {measured['predicted_s']} s and {measured['exchange_bytes']} bytes, simulated "
                                 f"{predicted['planned_s']} s and {predicted['exchange_bytes']} bytes")
            yield measured["step_s"], predicted["step_s"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--ranks", default="2,4,8,16,32")
    parser.add_argument("--links", default="10G:10us,1G:50us,100M:100us")
    parser.add_argument("--strategies", default="static,hdp-naive,hdp")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    weft = arguments.build.resolve() / "weft"
    errors = []
    print("| link | lengths | strategy | ranks | measured s | predicted s | error |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        configs = {mix: make_corpus(weft, folder, mix, draw, arguments.steps, KV_HEADS) for mix, draw in MIXES.items()}
        for link in arguments.links.split(","):
            cost = folder / f"cost-{link.split(':')[0]}.json"
            profile(weft, configs["skewed"], link, cost, arguments.seconds)
            for mix in MIXES:
                for strategy in arguments.strategies.split(","):
                    for ranks in [2] if link == MPI else map(int, arguments.ranks.split(",")):
                        rows = list(Case(weft, folder, mix, link, ranks, cost, arguments.steps).rows(strategy))
                        errors += [predicted / measured - 1 for measured, predicted in rows]
                        measured, predicted = (sum(column) / len(rows) for column in zip(*rows))
                        print(f"| {link} | {mix} | {strategy} | {ranks} | {measured:.4f} | {predicted:.4f} | "
                              f"{100 * (predicted / measured - 1):+.1f} % |", flush=True)
    sizes = sorted(abs(error) for error in errors)
    print(f"\n{len(sizes)} steps: mean error {100 * sum(sizes) / len(sizes):.1f} %, median {100 * sizes[len(sizes) // 2]:.1f} %, "
          f"worst {100 * sizes[-1]:.1f} %, mean signed {100 * sum(errors) / len(errors):+.1f} %")


if __name__ == "__main__":
    main()
