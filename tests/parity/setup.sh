#!/bin/sh
# Makes a virtual environment with PyTorch, NumPy and safetensors: setup.sh DIRECTORY
# On Debian, PyTorch is Debian's own (apt, CPU only: 140 MB to fetch, 600 MB on disk) and the
# environment sees it. Elsewhere pip fetches all three, which on Linux brings several GB of GPU
# libraries along.
set -eu
venv=$1
works() { [ -x "$venv/bin/python" ] && "$venv/bin/python" -c 'import torch, numpy, safetensors' 2>/dev/null; }
works && exit 0
rm -rf "$venv"
if command -v apt-get >/dev/null; then
    echo "parity: PyTorch and NumPy come from Debian, safetensors from pip, into $venv"
    .ci/deps python3 python3-venv python3-torch python3-numpy
    /usr/bin/python3 -m venv --system-site-packages "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check safetensors
else
    echo "parity: PyTorch, NumPy and safetensors come from pip, into $venv (several GB)"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check torch numpy safetensors
fi
works || { echo "parity: $venv cannot import torch, numpy and safetensors" >&2; exit 1; }
