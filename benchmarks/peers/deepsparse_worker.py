"""Runs a model on DeepSparse, in the environment that has it: called by benchmarks.inference.

    python deepsparse_worker.py MODEL.onnx INPUT.npy THREADS

Says "ready", then for each number read times as many runs and answers with a list of seconds.
"""

import json
import sys
import time

import numpy as np
from deepsparse import compile_model


def main() -> None:
    model, batch, threads = sys.argv[1:]
    x = [np.load(batch)]
    engine = compile_model(model, batch_size=len(x[0]), num_cores=int(threads))
    output = engine.run(x)[0]
    print(json.dumps({"ready": np.asarray(output).reshape(-1)[:64].tolist()}), flush=True)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            began = time.perf_counter()
            engine.run(x)
            seconds.append(time.perf_counter() - began)
        print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
