# SPDX-License-Identifier: MIT
"""Times of calls on the GPU present, for scripts that run swr beside its peers. They are run by their path,
so each says where this lies: sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))."""

import math
import random

import torch


def elapsed_us(action):
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    action()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) * 1e3


def graph_of(call, graph_us=1000.0, most=32, copies=1):
    """A graph of several launches that takes about graph_us, and their number: a multiple of the copies of
    its inputs that they take turns over. It is captured on the current stream where that is not the default
    one: autograd runs a backward on the stream of its forward, and the default one is never captured."""
    for _ in range(3):
        call()
    launches = max(1, min(most, round(graph_us / elapsed_us(call))))
    launches = math.ceil(launches / copies) * copies
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.current_stream()
    with torch.cuda.graph(graph, stream=None if stream == torch.cuda.default_stream() else stream):
        for _ in range(launches):
            call()
    return graph, launches


def sample_in_turns(graphs, rounds, seed):
    """Name to microseconds per launch, one sample a round, in an order drawn for each round; the rounds of
    all names correspond. `graphs` has what graph_of() gives, by name."""
    order, draw = list(graphs), random.Random(seed)
    samples = {name: [] for name in graphs}
    for _ in range(rounds):
        draw.shuffle(order)
        for name in order:
            graph, launches = graphs[name]
            graph.replay()  # Untimed: the caches hold what this kernel leaves.
            samples[name].append(elapsed_us(graph.replay) / launches)
    return samples
