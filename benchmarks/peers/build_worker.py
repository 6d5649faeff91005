"""Runs a model on the build of Skinny that PYTHONPATH names: called by benchmarks.builds.

    python build_worker.py MODEL.skinny INPUT.npy OUTPUT.npy THREADS

Writes the output, says which package it is, then for each number read times as many calls and
answers with a list of seconds.
"""

import json
import sys
import time

import numpy as np

import skinny


def main() -> None:
    model, batch, output, threads = sys.argv[1:]
    net, x = skinny.load(model, threads=int(threads)), np.load(batch)
    np.save(output, net(x, preprocessed=True))
    print(json.dumps(skinny.__file__), flush=True)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            began = time.perf_counter()
            net(x, preprocessed=True)
            seconds.append(time.perf_counter() - began)
        print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
