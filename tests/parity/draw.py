"""Weights and tokens that Python and C make alike (tests/t_parity.c): from names, by integers.

  mix(z)       splitmix64's finaliser, modulo 2^64
  key(text)    FNV-1a of 64 bits
  draw(key, i) = (mix(key + (i + 1) * 0x9e3779b97f4a7c15) >> 40), 24 bits
  unit         = (draw - 2^23 + 0.5) / 2^23, in (-1, 1), in double

A weight's key is that of "CASE/NAME". Element i is float(base + scale * unit):
  embeddings                 base 0, scale 0.5
  other matrices             base 0, scale 2 / sqrt(columns)
  gate units' weights        base 0, scale 1.5 / sqrt(d)
  gate units' biases         base 0.05, scale 0.1
  other biases               base 0, scale 0.3
  gains                      base 1, scale 0.3
but the case b_edge, whose gate units have weights 0 and the biases 1/4, 3/4, 0: accumulators of 1/4,
exactly 1, and exactly 1 with a ReLU at exactly 0.
Token i of "CASE/tokens" is draw * vocab >> 24.
Sign i of "CASE/NAME/K", which gradients are projected on, is -1 where draw is odd, else 1.
"""

import math

import numpy as np

U64 = np.uint64


def key(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return h


def draw(text, n):
    with np.errstate(over="ignore"):
        z = U64(key(text)) + np.arange(1, n + 1, dtype=U64) * U64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> U64(30))) * U64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> U64(27))) * U64(0x94D049BB133111EB)
        return ((z ^ (z >> U64(31))) >> U64(40)).astype(np.int64)


def base_and_scale(name, shape):
    if name.startswith("model.embed_") and len(shape) == 2:
        return 0.0, 0.5
    if len(shape) == 2:
        return 0.0, 2.0 / math.sqrt(shape[1])
    if name.endswith(".gate.weight"):
        return 0.0, 1.5 / math.sqrt(shape[0])
    if name.endswith(".gate.bias"):
        return 0.05, 0.1
    return (0.0, 0.3) if name.endswith(".bias") else (1.0, 0.3)


def edge(name, shape):
    biases = {"model.layers.0.gate.bias": 0.25, "model.layers.1.gate.bias": 0.75}
    return np.full(shape, biases.get(name, 0.0), np.float32)


def weight(case, name, shape):
    if case == "b_edge" and ".gate." in name:
        return edge(name, shape)
    base, scale = base_and_scale(name, shape)
    n = int(np.prod(shape))
    unit = (draw(f"{case}/{name}", n) - 2**23 + 0.5) / 2.0**23
    return (base + scale * unit).astype(np.float32).reshape(shape)


def weights(case, shapes):
    return {name: weight(case, name, shape) for name, shape in shapes.items()}


def tokens(case, n, vocab):
    return (draw(f"{case}/tokens", n) * vocab) >> 24


def signs(case, name, k, n):
    return 1.0 - 2.0 * (draw(f"{case}/{name}/{k}", n) & 1)
