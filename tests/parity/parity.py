"""Holds lathe against tests/parity/reference.py: `make parity`, or with arguments

  parity.py [CASE]...          compare all cases (cases/*.yaml), or those named
  parity.py --golden [CASE]... write golden/CASE.json from the double-precision run instead; it is
                               what tests/t_parity.c compares lathe with

Each case is a profile. Weights and tokens come from draw.py. `lathe probe` computes the micro-batch,
PyTorch computes it again from the profile and the weights in the probe's file. A case fails when
  the tensors' names or shapes, or the weights' bits, are not the expected ones,
  a loss is off by more than 1e-6 (relative), logits by more than 1e-4 (norm of the difference, and
  largest difference against the largest logit), a gate's statistic by more than 1e-6,
  a gradient by more than 1e-4 (norm of the difference / norm), or, where the gradient is zero in
  exact arithmetic (keys' biases without RoPE), exceeds 1e-6 of the whole gradient's norm.
$LATHE is the program (default ./lathe).
"""

import glob
import json
import os
import subprocess
import sys

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import draw
import reference

HERE = os.path.dirname(os.path.abspath(__file__))
LATHE = os.environ.get("LATHE", "./lathe")
WORK = "build/parity"
LOSS, LOGITS, GRADIENT, ZERO = 1e-6, 1e-4, 1e-4, 1e-6
EDGE = 1e-5  # ReLUs and clamps nearer to their edge than this could fall either way in fp32


class Mismatch(Exception):
    pass


# ---- lathe's side ----------------------------------------------------------------------------


def lathe(*args):
    done = subprocess.run([LATHE, *args], capture_output=True, text=True)
    if done.returncode:
        raise Mismatch(f"lathe {args[0]} failed ({done.returncode}): {done.stderr.strip()}")
    return done.stdout


def write_tokens(path, ids):
    """The llm.c layout: 256 int32, then uint16 ids."""
    header = np.zeros(256, np.int32)
    header[:3] = 20240520, 1, len(ids)
    with open(path, "wb") as f:
        f.write(header.tobytes() + ids.astype(np.uint16).tobytes())


class Case:
    def __init__(self, name):
        self.name = name
        self.path = os.path.join(HERE, "cases", name + ".yaml")
        self.profile = json.loads(lathe("show", self.path, "--json"))
        self.cfg = reference.Config(self.profile)
        self.shapes = reference.expected_shapes(self.cfg)
        n = self.cfg.B * self.cfg.T + 1
        self.weights = draw.weights(name, self.shapes)
        self.tokens = draw.tokens(name, n, self.profile["model"]["vocab"])
        self.hard = self.cfg.gated and self.cfg.gate["attn"] == "hard"

    def reference(self, dtype, weights=None):
        weights = self.weights if weights is None else weights
        out, margin = reference.run(self.profile, weights, self.tokens, dtype, not self.hard)
        if margin < EDGE and self.name != "b_edge":
            raise Mismatch(f"a gate is {margin:.1e} from an edge: rename the case to draw anew")
        return out

    def probe(self, backend):
        """What lathe computes: (weights, results)."""
        stem = os.path.join(WORK, self.name)
        write_tokens(stem + ".tokens", self.tokens)
        save_file(self.weights, stem + ".weights")
        out = f"{stem}.{backend}"
        lathe("probe", self.path, "--tokens", stem + ".tokens", "--weights", stem + ".weights",
              "--out", out, "--backend", backend)
        with safe_open(out, framework="np") as f:
            if json.loads(f.metadata()["profile"]) != self.profile:
                raise Mismatch("the probe's profile is not what lathe show prints")
        tensors = load_file(out)
        return ({n: x for n, x in tensors.items() if n in self.shapes},
                {n: x for n, x in tensors.items() if n not in self.shapes})


# ---- the comparison --------------------------------------------------------------------------


def check_names(case, weights, got, want):
    if weights.keys() != case.shapes.keys():
        raise Mismatch(f"weights differ: {sorted(case.shapes.keys() ^ weights.keys())}")
    if got.keys() != want.keys():
        raise Mismatch(f"results differ: {sorted(got.keys() ^ want.keys())}")
    for name, x in got.items():
        shape = want[name].shape or (1,)
        if x.shape != shape or x.dtype != np.float32:
            raise Mismatch(f"{name} is {x.dtype} {x.shape}, expected float32 {shape}")
    for name, x in weights.items():
        if not np.array_equal(x, case.weights[name]):
            raise Mismatch(f"{name} is not what it was set to")


def off(got, want):
    return float(np.linalg.norm(np.float64(got) - want) / np.linalg.norm(want))


def errors(got, want):
    """Worst relative errors: (loss, logits, gradient), and which gradient."""
    loss = max(off(got[n].reshape(()), want[n]) for n in ("loss", "loss_total"))
    largest = np.abs(got["logits"] - want["logits"]).max() / np.abs(want["logits"]).max()
    logits = max(off(got["logits"], want["logits"]), float(largest))
    for n in ("gate.mean", "gate.var", "gate.sparsity"):
        if n in want:
            loss = max(loss, float(np.abs(got[n] - want[n]).max()))
    grads = [n for n in want if n.startswith("grad.")]
    whole = np.sqrt(sum((want[n] ** 2).sum() for n in grads))
    worst, where = 0.0, "-"
    for n in grads:
        if np.linalg.norm(want[n]) < 1e-12 * whole:  # zero but for rounding
            e = float(np.linalg.norm(got[n]) / whole) * GRADIENT / ZERO
        else:
            e = off(got[n], want[n])
        if not e <= worst:
            worst, where = e, n[len("grad."):]
    return loss, logits, worst, where


def compare(case):
    """One row of the table and whether all of it holds."""
    row, ok = [], True
    for backend in ("cpu", "ref"):
        weights, got = case.probe(backend)
        want = case.reference(torch.float64, weights)
        check_names(case, weights, got, want)
        loss, logits, gradient, where = errors(got, want)
        ok = ok and loss <= LOSS and logits <= LOGITS and gradient <= GRADIENT
        row += [loss, logits, gradient] + ([where] if backend == "cpu" else [])
    torch32 = errors(case.reference(torch.float32), want)
    return row + [torch32[2]], ok


def number(x):
    return f"{x:9.1e}" if isinstance(x, float) else f"{x[-38:]:38}"


def compare_all(names):
    print("Worst relative errors against PyTorch in double precision; torch32 is PyTorch's own "
          "gradient in fp32.\n")
    print(f"{'':28}{'-- lathe, cpu backend (fp32) --':>29}{'':39}{'-- ref backend (double) --':>29}")
    print(f"{'case':28}{'loss':>9}{'logits':>10}{'gradient':>10} {'of':38}"
          f"{'loss':>9}{'logits':>10}{'gradient':>10}{'torch32':>10}")
    failed = 0
    for name in names:
        try:
            row, ok = compare(Case(name))
            text = " ".join(number(x) for x in row)
        except Mismatch as e:
            text, ok = str(e), False
        failed += not ok
        print(f"{name:28}{text}{'' if ok else '  FAILED'}", flush=True)
    print(f"\nlimits: loss {LOSS:g}, logits {LOGITS:g}, gradient {GRADIENT:g}")
    print(f"{len(names) - failed} passed, {failed} failed")
    return failed or not names


# ---- golden numbers --------------------------------------------------------------------------


def summary(case, name, x):
    """Norm and two projections on vectors of signs."""
    flat = x.reshape(-1)
    return [float(np.linalg.norm(flat))] + [
        float(flat @ draw.signs(case.name, name, k, flat.size)) for k in (0, 1)]


def golden(case):
    out = case.reference(torch.float64)
    rows = out["logits"].reshape(-1, out["logits"].shape[-1])
    want = {"loss": float(out["loss"]), "loss_total": float(out["loss_total"])}
    for name in ("gate.mean", "gate.var", "gate.sparsity"):
        if name in out:
            want[name] = out[name].tolist()
    want["logits"] = summary(case, "logits", rows)
    want["first row"] = rows[0].tolist()
    want["last row"] = rows[-1].tolist()
    for name in sorted(out):
        if name.startswith("grad."):
            want[name] = summary(case, name, out[name])
    with open(os.path.join(HERE, "golden", case.name + ".json"), "w") as f:
        lines = (f"{json.dumps(k)}: {json.dumps(v)}" for k, v in want.items())
        f.write("{\n" + ",\n".join(lines) + "\n}\n")


def main(args):
    torch.set_num_threads(1)
    os.makedirs(WORK, exist_ok=True)
    names = [a for a in args if a != "--golden"] or sorted(
        os.path.basename(p)[: -len(".yaml")] for p in glob.glob(os.path.join(HERE, "cases/*.yaml")))
    if "--golden" not in args:
        return compare_all(names)
    for name in names:
        golden(Case(name))
        print(f"golden/{name}.json")
    return 0


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
