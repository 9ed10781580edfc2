"""A small corpus and training runs on it, for the end-to-end tests: as threads and as MPI processes."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

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
global_batch_tokens = 1024
max_context = 512
over_long = "split"
[plan]
capacity = 512
[optimizer]
lr = 3e-3
warmup_steps = 2
[train]
steps = {steps}
save_interval = {save_interval}
[comm]
wait_limit_s = 60
"""

MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
FINISHED, FAILED, USAGE, STOPPED, INTERRUPTED = 0, 1, 2, 75, 130


class Runs:
    """A temporary folder with a corpus of about nine steps an epoch."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft_runs_"))
        text = self.folder / "text"
        text.mkdir()
        for i in range(24):
            (text / f"{i:02}.txt").write_text("".join(chr(97 + (i * 7 + j * j // 5) % 26) for j in range(i * i % 997)))
        self.corpus = self.folder / "corpus"
        built = self.weft("corpus", "build", "--out", self.corpus, text)
        assert built.returncode == 0, built.stderr

    def remove(self):
        shutil.rmtree(self.folder)

    def environment(self, arguments=(), extra=None):
        """For a program with these arguments."""
        variables = dict(os.environ, CI="1", **MPI_ENVIRONMENT)
        if "ASAN_OPTIONS" in variables and not {"mpi", "mpirun"}.isdisjoint(map(str, arguments)):
            variables["ASAN_OPTIONS"] += ":detect_leaks=0"  # Open MPI's own: cmake/WeftMpi.cmake
        return dict(variables, **(extra or {}))

    def weft(self, *arguments, timeout=240, environment=None):
        return subprocess.run([str(self.build / "weft"), *map(str, arguments)], capture_output=True, text=True,
                              timeout=timeout, env=self.environment(arguments, environment))

    def out(self, name):
        return self.folder / name

    def arguments(self, name, steps=20, save_interval=5, extra=()):
        config = self.folder / f"{steps}_{save_interval}.toml"
        config.write_text(CONFIG.format(corpus=self.corpus, steps=steps, save_interval=save_interval))
        return ["train", "--config", str(config), "--train.out", str(self.out(name)), *map(str, extra)]

    def train(self, name, **options):
        return self.weft(*self.arguments(name, **options))

    def start(self, name, **options):
        """In a process group of its own, so that a signal reaches it alone or all of it at will."""
        with open(self.folder / f"{name}.log", "a") as log:
            arguments = self.arguments(name, **options)
            return subprocess.Popen([str(self.build / "weft"), *arguments], stdout=log, stderr=log,
                                    env=self.environment(arguments), start_new_session=True)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def metrics(self, name):
        path = self.out(name) / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def essence(self, name):
        """What neither time nor interruptions may change."""
        keys = ("step", "loss", "grad_norm", "lr", "tokens", "plan_hash", "skipped_steps")
        return [tuple(step[key] for key in keys) for step in self.metrics(name)]

    def weights(self, name):
        return (self.out(name) / "model.safetensors").read_bytes()

    def checkpoints(self, name):
        folder = self.out(name) / "checkpoints"
        names = [p.name for p in folder.iterdir()] if folder.exists() else []
        return sorted(int(n[5:]) for n in names if n.startswith("step-") and n[5:].isdigit())


def descendants(pid):
    """Process ids below pid, whoever started them."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                parents[int(entry.name)] = int(fields[1])
            except OSError:
                continue
    found, fresh = set(), {pid}
    while fresh:
        fresh = {child for child, parent in parents.items() if parent in fresh} - found
        found |= fresh
    return found


def engines(pid):
    """The rank processes below pid (and itself): those that run weft-engine."""
    ranks = []
    for candidate in descendants(pid) | {pid}:
        try:
            if os.path.basename(os.readlink(f"/proc/{candidate}/exe")).startswith("weft-engine"):
                ranks.append(candidate)
        except OSError:
            continue
    return sorted(ranks)


def end_group(process):
    """Whatever is left of a run that the test started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def wait_until(condition, timeout=120):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False
