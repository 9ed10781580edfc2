"""Steps of mixed lengths for measurements: a small model, a corpus of random text, what weft simulate predicts of its steps.

32K tokens a step in sequences of up to 8K, ranks of 4K.
"""

import json
import os
import random
import subprocess

CONTEXT, CAPACITY, BATCH = "8K", "4K", "32K"
BATCH_TOKENS = 32 * 1024
CONFIG = """
[model]
vocab_size = 0
num_layers = 2
hidden_size = 128
num_heads = 4
num_kv_heads = {kv_heads}
head_dim = 32
intermediate_size = 352
tie_word_embeddings = true
[data]
corpus = "{corpus}"
global_batch_tokens = "{batch}"
max_context = "{context}"
over_long = "split"
[plan]
capacity = "{capacity}"
[train]
out = "{out}"
steps = {steps}
"""
# Other libraries' switches would make the profile and the run differ from what a user sees.
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS_")}
ENVIRONMENT.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def run(*arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, env=ENVIRONMENT)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, arguments))}\n{done.stderr}")
    return done.stdout


def make_corpus(weft, folder, name, draw_length, steps, kv_heads):
    """FOLDER/NAME, enough for so many steps, and FOLDER/NAME.toml, which is returned."""
    rng = random.Random(1)
    text = folder / f"{name}.jsonl"
    tokens = 0
    with text.open("w") as lines:
        while tokens < (steps + 1) * BATCH_TOKENS:
            length = draw_length(rng)
            tokens += length
            lines.write(json.dumps({"text": "".join(rng.choice("abcdefgh ") for _ in range(length))}) + "\n")
    run(weft, "corpus", "build", "--out", folder / name, text)
    config = folder / f"{name}.toml"
    config.write_text(CONFIG.format(kv_heads=kv_heads, corpus=folder / name, out=folder / "out", steps=steps, batch=BATCH,
                                    context=CONTEXT, capacity=CAPACITY))
    return config


def paired_steps(measured, predicted, first_step, what):
    """(measured s, predicted s) of every step from first_step on: metrics.jsonl beside what weft simulate says."""
    if len(measured) != len(predicted):
        raise SystemExit(f"{what}: {len(measured)} steps were measured and {len(predicted)} predicted")
    for one, other in list(zip(measured, predicted))[first_step:]:
        same_plan = abs(one["predicted_s"] - other["planned_s"]) < 1e-6
        if not same_plan or one["exchange_bytes"] != other["exchange_bytes"]:
            raise SystemExit(f"{what} step {one['step']}: the simulator planned another step: {one['predicted_s']} s and "
                             f"{one['exchange_bytes']} bytes, simulated {other['planned_s']} s and "
                             f"{other['exchange_bytes']} bytes")
        yield one["step_s"], other["step_s"]


def predicted_steps(weft, cost, corpus, ranks, strategy, steps):
    return json.loads(run(
        weft, "simulate", "--cost", cost, "--ranks", ranks, "--capacity", CAPACITY, "--corpus", corpus, "--global-batch-tokens",
        BATCH, "--max-context", CONTEXT, "--over-long", "split", "--strategy", strategy, "--batches", steps, "--json"))["steps"]
