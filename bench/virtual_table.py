#!/usr/bin/env python3
"""Predicted against measured step time of `weft train --virtual-ranks`, after `weft profile` alone.

    bench/virtual_table.py build/release [--ranks 2,4,8,16,32] [--links 10G:10us,1G:50us,100M:100us]
                           [--strategies static,hdp-naive,hdp] [--steps 3] [--first-step 1] [--seconds 15] [--rounds 3]

Two length mixes of random text, both up to 8K tokens, 32K tokens a step. For each link a profile of its own; then the steps
from --first-step on (step 0 touches fresh memory and so, less, do the next two) are measured on the ranks' own clocks and
predicted by `weft simulate --cost`, which makes the same plans and sees nothing else. The link `mpi` is two real ranks as MPI
processes of this machine, profiled and timed by the wall clock.

A shared machine is faster in one minute than in the next, so all of it is done in several rounds, each with a profile of its
own, and a row has the medians of its rounds' mean step times; what ranks compute stays on one core. Ctrl-C ends it with what there is. One Markdown row for each
combination, then the errors' mean and worst. Measure on an idle machine: CPU time itself grows when other programs share the
caches.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from mixed_steps import make_corpus, paired_steps, predicted_steps, run  # noqa: E402

KV_HEADS = 2
MPI = "mpi"
ALL_CORES = os.sched_getaffinity(0)


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
    def __init__(self, weft, folder, mix, link, ranks, cost, steps, first_step=1):
        self.weft, self.folder, self.mix, self.ranks, self.cost, self.steps = weft, folder, mix, ranks, cost, steps
        self.first_step = first_step
        self.link = link

    def measured(self, strategy):
        out = self.folder / f"run-{self.mix}-{self.ranks}-{strategy}-{self.link.split(':')[0]}"
        shutil.rmtree(out, ignore_errors=True)  # of the round before
        ranks = ["--launch", "mpi", "--ranks"] if self.link == MPI else [*link_options(self.link), "--virtual-ranks"]
        run(self.weft, "train", "--config", self.folder / f"{self.mix}.toml", "--train.out", out, "--train.steps", self.steps,
            "--plan.strategy", strategy, "--plan.cost", self.cost, *ranks, self.ranks)
        return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]

    def predicted(self, strategy):
        return predicted_steps(self.weft, self.cost, self.folder / self.mix, self.ranks, strategy, self.steps)

    def rows(self, strategy):
        """(measured s, predicted s) of every step from first_step on."""
        return paired_steps(self.measured(strategy), self.predicted(strategy), self.first_step,
                            f"{self.mix} {self.ranks} {strategy}")


class Table:
    """Step times of every combination, over rounds."""

    def __init__(self):
        self.measured, self.predicted = {}, {}

    def add(self, key, rows):
        measured, predicted = (statistics.mean(column) for column in zip(*rows))
        self.measured.setdefault(key, []).append(measured)
        self.predicted.setdefault(key, []).append(predicted)

    def write(self):
        print("| link | lengths | strategy | ranks | measured s | predicted s | error | measured, least to most |\n"
              "|---|---|---|---|---|---|---|---|")
        errors = {}
        for key, values in self.measured.items():
            measured, predicted = statistics.median(values), statistics.median(self.predicted[key])
            errors[key] = predicted / measured - 1
            print(f"| {' | '.join(map(str, key))} | {measured:.4f} | {predicted:.4f} | {100 * errors[key]:+.1f} % | "
                  f"{min(values):.4f} to {max(values):.4f} |")
        print()
        for strategy in dict.fromkeys(key[2] for key in errors):
            self.write_errors(strategy, [error for key, error in errors.items() if key[2] == strategy])
        self.write_errors("all", list(errors.values()))

    @staticmethod
    def write_errors(name, errors):
        sizes = [abs(error) for error in errors]
        print(f"{name}: {len(sizes)} combinations, mean error {100 * statistics.mean(sizes):.1f} %, median "
              f"{100 * statistics.median(sizes):.1f} %, worst {100 * max(sizes):.1f} %, mean signed "
              f"{100 * statistics.mean(errors):+.1f} %")


def measure_round(arguments, weft, folder, configs, table):
    for link in arguments.links.split(","):
        if link != MPI:  # what runs inside stays on one core, and all of it on the same
            os.sched_setaffinity(0, {max(ALL_CORES)})
        cost = folder / f"cost-{link.split(':')[0]}.json"
        profile(weft, configs["skewed"], link, cost, arguments.seconds)
        for mix in MIXES:
            for strategy in arguments.strategies.split(","):
                for ranks in [2] if link == MPI else map(int, arguments.ranks.split(",")):
                    case = Case(weft, folder, mix, link, ranks, cost, arguments.steps, arguments.first_step)
                    table.add((link, mix, strategy, ranks), list(case.rows(strategy)))
                    print(".", end="", file=sys.stderr, flush=True)
        os.sched_setaffinity(0, ALL_CORES)
    print(file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--ranks", default="2,4,8,16,32")
    parser.add_argument("--links", default="10G:10us,1G:50us,100M:100us")
    parser.add_argument("--strategies", default="static,hdp-naive,hdp")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--first-step", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if not 0 <= arguments.first_step < arguments.steps:
        parser.error(f"--first-step is {arguments.first_step}, expected 0 to {arguments.steps - 1}, one below --steps")
    weft = arguments.build.resolve() / "weft"
    table = Table()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        configs = {mix: make_corpus(weft, folder, mix, draw, arguments.steps, KV_HEADS) for mix, draw in MIXES.items()}
        try:
            for _ in range(arguments.rounds):
                measure_round(arguments, weft, folder, configs, table)
        except KeyboardInterrupt:
            print("stopped: the table has what was measured", file=sys.stderr)
    table.write()


if __name__ == "__main__":
    main()
