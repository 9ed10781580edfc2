#!/usr/bin/env python3
"""Runs the bench programs and shows their rows: a table for people, JSON lines for programs, or a check against
baselines. ./run bench builds first and then calls this.

Usage: bench.py BUILD_DIR [NAME...] [--json] [--list] [--check]   NAME: a prefix of row names
Exit codes: 0, 1 a row failed or lies below its threshold, 2 wrong usage or no such row.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

BASELINES = pathlib.Path(__file__).resolve().parent / "baselines"
PROGRAMS = [["bench_machine"], ["bench_attention"], ["bench_plan"], ["bench_comm"], ["bench_comm", "--mpi"],
            ["bench_step"], ["bench_offload"], ["links_bench.py"]]
TOOLS = pathlib.Path(__file__).resolve().parents[1] / "tools"
MPIRUN = ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none"]
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
KNOWN = {"name", "value", "unit", "better", "samples", "min", "p50", "max", "limit", "limit_name", "share"}
NAME_WIDTH = 40


class BenchError(Exception):
    """Wrong usage or damaged data: exit code 2."""


def yields_when_idle():
    """Two ranks that spin on one core wait for each other's time slices."""
    return {} if len(os.sched_getaffinity(0)) > 2 else {"OMPI_MCA_mpi_yield_when_idle": "1"}


def command_of(folder, program):
    if program[0].endswith(".py"):  # drives programs of the build
        return [sys.executable, str(TOOLS / program[0]), str(folder.parent)]
    return [str(folder / program[0]), *program[1:]]


def list_rows(folder, prefixes):
    """[(program, [row names])] of those programs that this build has and that have a chosen row."""
    found = []
    for program in PROGRAMS:
        needed = folder.parent / "weft-engine" if program[0].endswith(".py") else folder / program[0]
        if not needed.exists():
            continue
        if "--mpi" in program and not shutil.which("mpirun"):
            continue
        listed = subprocess.run([*command_of(folder, program), "--list", *prefixes], capture_output=True, text=True)
        if listed.returncode != 0:
            raise BenchError(f"{program[0]} --list failed: {listed.stderr.strip()}")
        if listed.stdout.strip():
            found.append((program, listed.stdout.split()))
    return found


def run_rows(folder, program, prefixes):
    """Yields rows as they come; returns False when the program failed."""
    launcher = MPIRUN if "--mpi" in program else []
    environment = dict(os.environ, **MPI_ENVIRONMENT, **yields_when_idle()) if launcher else None
    with subprocess.Popen([*launcher, *command_of(folder, program), *prefixes], stdout=subprocess.PIPE, text=True,
                          env=environment) as process:
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode != 0:
        yield None


def number(value):
    if value is None:
        return "-"
    magnitude = abs(value)
    if magnitude >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{0 if magnitude >= 100 else 1 if magnitude >= 10 else 2 if magnitude >= 1 else 3}f}"


def heading():
    return (f"{'row':<{NAME_WIDTH}} {'p50':>9} {'unit':<12} {'min':>9} {'max':>9} {'n':>3} {'share':>6}  of")


def table_line(row):
    share = "-" if row["share"] is None else f"{100 * row['share']:.0f} %"
    limit = "" if row["limit"] is None else f"{number(row['limit'])} {row['limit_name']}"
    extras = [f"{key} {number(row[key])}" for key in row if key not in KNOWN]
    text = (f"{row['name']:<{NAME_WIDTH}} {number(row['p50']):>9} {row['unit']:<12} {number(row['min']):>9} "
            f"{number(row['max']):>9} {row['samples']:>3} {share:>6}  {limit}")
    return text.rstrip() + (f"  ({', '.join(extras)})" if extras else "")


def load_baselines(folder):
    baselines = []
    for path in sorted(folder.glob("*.jsonl")):
        for place, line in enumerate(path.read_text().splitlines(), 1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
                missing = {"name", "key", "threshold", "hardware", "date"} - entry.keys()
            except ValueError as error:
                raise BenchError(f"{path}:{place}: not JSON: {error}") from error
            if missing:
                raise BenchError(f"{path}:{place}: lacks {', '.join(sorted(missing))}")
            baselines.append(entry)
    return baselines


def check_rows(rows, baselines):
    """One line per row that is below its threshold, or that lacks the figure; rows not run are left out."""
    by_name = {row["name"]: row for row in rows}
    failures = []
    for entry in baselines:
        row = by_name.get(entry["name"])
        if row is None:
            continue
        value = row.get(entry["key"])
        if value is None:
            failures.append(f"{entry['name']}: has no {entry['key']}")
        elif value < entry["threshold"]:
            failures.append(f"{entry['name']}: {entry['key']} {value:.3f} is below {entry['threshold']:.3f} "
                            f"(measured {entry.get('measured', '-')} on {entry['hardware']}, {entry['date']})")
        elif value > entry.get("at_most", float("inf")):
            failures.append(f"{entry['name']}: {entry['key']} {value:.3f} is above {entry['at_most']:.3f}")
    return failures


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./run bench", description="Benchmarks, each beside its limit.")
    parser.add_argument("build", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help="prefixes of row names (default: all rows)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line and nothing else on stdout")
    parser.add_argument("--list", action="store_true", help="print the names of the rows and stop")
    parser.add_argument("--check", action="store_true", help="compare with bench/baselines and exit 1 below a threshold")
    parser.add_argument("--baselines", type=pathlib.Path, default=BASELINES, help=argparse.SUPPRESS)
    return parser.parse_intermixed_args(arguments)


def main(arguments):
    options = parse(arguments)
    folder = pathlib.Path(options.build) / "bench"
    baselines = load_baselines(options.baselines) if options.check else []
    chosen = list_rows(folder, options.names)
    if not chosen:
        raise BenchError(f"no row starts with {' or '.join(options.names) or 'anything'}; --list shows all")
    if options.list:
        print("\n".join(name for _, names in chosen for name in names))
        return 0
    if not options.json:
        print(heading(), flush=True)
    rows, failed, start = [], False, time.monotonic()
    for program, names in chosen:
        print(f"{program[0]}: {len(names)} rows", file=sys.stderr, flush=True)
        for row in run_rows(folder, program, options.names):
            if row is None:
                failed = True
                continue
            rows.append(row)
            print(json.dumps(row) if options.json else table_line(row), flush=True)
    print(f"{len(rows)} rows in {time.monotonic() - start:.0f} s", file=sys.stderr)
    failures = check_rows(rows, baselines)
    for line in failures:
        print(f"below its baseline: {line}", file=sys.stderr)
    if options.check and not failures:
        compared = len({entry['name'] for entry in baselines} & {row['name'] for row in rows})
        print(f"{compared} rows compared with their baselines, none below", file=sys.stderr)
    return 1 if failed or failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(2)
