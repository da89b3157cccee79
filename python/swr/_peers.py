# SPDX-License-Identifier: MIT
"""Times what others call for the problems of a tuning run, through PyTorch. One argument, a JSON object:
{"peer": "torch" or "cublaslt", "problems": [...], "probe": whether the calls are only looked for,
"gpu": N, "l2": "warm" or "cold", "l2_bytes": N}. The last line on standard output is the answer, a JSON object."""

import json
import statistics
import sys

SAMPLES = 41
SAMPLE_US = 300.0
WARM_UP_MS = 300.0


class Unsupported(Exception):
    """What is asked has no call here."""


def attention(torch, problem):
    """Every backend's call, by name."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    rows, keys = problem["seq_q"], problem["seq_kv"]
    if problem["causal"] and rows != keys and rows > 1:
        raise Unsupported("PyTorch aligns the mask of unequal lengths at the other corner")
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16}[problem["dtype"]]

    def tensor(heads, length):
        return torch.randn(problem["batch"], heads, length, problem["head_dim"], dtype=kind, device="cuda")

    q = tensor(problem["heads_q"], rows)
    k, v = (tensor(problem["heads_kv"], keys) for _ in range(2))
    options = {"is_causal": problem["causal"] and rows > 1,
               "enable_gqa": problem["heads_q"] != problem["heads_kv"]}
    calls = {}
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        def call(backend=backend):
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
        calls[f"scaled_dot_product_attention ({backend.name.split('_')[0].lower()})"] = call
    return calls


def fp8_product(torch, problem):
    scaling = problem.get("scaling", "none")
    if problem.get("output", "bf16") != "bf16" or scaling == "block" or problem["batch"] != 1:
        raise Unsupported("torch._scaled_mm is asked for one product in bf16, scaled by tensors or rows")
    kind = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[problem["dtype"]]
    m, n, k = problem["m"], problem["n"], problem["k"]
    a = torch.randn(m, k, device="cuda").to(kind)
    b = torch.randn(n, k, device="cuda").to(kind).t()
    rows = scaling == "row"
    scales = (torch.ones((m, 1) if rows else (), device="cuda"), torch.ones((1, n) if rows else (), device="cuda"))
    fast = problem.get("accuracy", "fast") == "fast"
    return {"_scaled_mm": lambda: torch._scaled_mm(a, b, *scales, out_dtype=torch.bfloat16, use_fast_accum=fast)}


def product(torch, problem):
    usual = {"groups": "none", "has_bias": False, "activation": "none", "gated": False, "reads_c": False}
    for field, value in usual.items():
        if problem.get(field, value) != value:
            raise Unsupported(f"only plain products are timed, not those with {field}")
    if problem["dtype"] in ("e4m3", "e5m2"):
        return fp8_product(torch, problem)
    if problem.get("output", problem["dtype"]) != problem["dtype"]:
        raise Unsupported("only products whose output has the type of the inputs are timed")
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16}[problem["dtype"]]
    batch = (problem["batch"],) if problem["batch"] > 1 else ()
    m, n, k = problem["m"], problem["n"], problem["k"]
    layout = problem.get("layout", "nt")

    def matrix(rows, columns, is_transposed):
        shape = (columns, rows) if is_transposed else (rows, columns)
        stored = torch.randn(*batch, *shape, dtype=kind, device="cuda")
        return stored.mT if is_transposed else stored

    # As BLAS names them for columns first: nt has A and B contiguous along k.
    a, b = matrix(m, k, layout == "tn"), matrix(k, n, layout == "nt")
    return {"matmul": lambda: torch.matmul(a, b)}


def softmax(torch, problem):
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16}[problem["dtype"]]
    x = torch.randn(problem["rows"], problem["columns"], dtype=kind, device="cuda")
    return {"softmax": lambda: torch.softmax(x, -1)}


MAKERS = {"attention": attention, "gemm": product, "softmax": softmax}


def maker_of(peer, problem):
    known = ["gemm"] if peer == "cublaslt" else list(MAKERS)
    if problem["op"] not in known:
        raise Unsupported(f"--against {peer} knows {', '.join(known)}, not {problem['op']}")
    return MAKERS[problem["op"]]


def elapsed_us(torch, enqueue):
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    enqueue()
    stop.record()
    stop.synchronize()
    return 1e3 * start.elapsed_time(stop)


def repeated(torch, call, times):
    """A graph of the launches, as swr times its own; the calls themselves where none can be made."""
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(times):
                call()
        return graph.replay
    except RuntimeError:
        return lambda: [call() for _ in range(times)]


def median_us(torch, call, asked):
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    if asked["l2"] == "cold":
        spoiler = torch.empty(2 * asked["l2_bytes"], dtype=torch.uint8, device="cuda")
        samples = []
        for _ in range(SAMPLES):
            spoiler.zero_()
            samples.append(elapsed_us(torch, call))
        return statistics.median(samples)
    times = max(1, round(SAMPLE_US / max(1.0, min(elapsed_us(torch, call) for _ in range(5)))))
    sample = repeated(torch, call, times)
    begun = 0.0
    while begun < 1e3 * WARM_UP_MS:  # So that clocks are those of load.
        begun += max(1.0, elapsed_us(torch, sample))
    return statistics.median(elapsed_us(torch, sample) for _ in range(SAMPLES)) / times


def time_problem(torch, problem, asked):
    """The fastest call."""
    best, failures = None, []
    for name, call in maker_of(asked["peer"], problem)(torch, problem).items():
        try:
            time_us = median_us(torch, call, asked)
        except RuntimeError as error:
            failures.append(f"{name}: {str(error).splitlines()[0]}")
            continue
        if best is None or time_us < best["median_us"]:
            best = {"call": name, "median_us": time_us}
    if best is None:
        raise Unsupported("no call works: " + "; ".join(failures))
    return best


def answer(asked):
    for problem in asked["problems"]:
        maker_of(asked["peer"], problem)
    try:
        import torch
    except ImportError:
        raise Unsupported(f"{sys.executable} has no module torch: install PyTorch with CUDA, or name a Python "
                          "that has it in SWR_PYTHON")
    if not torch.cuda.is_available():
        raise Unsupported("PyTorch of this Python sees no GPU: install one built for CUDA")
    if asked["peer"] == "cublaslt":
        torch.backends.cuda.preferred_blas_library("cublaslt")
    version = {"version": torch.__version__}
    if asked["probe"]:
        return version
    torch.cuda.set_device(asked["gpu"])
    torch.manual_seed(1)
    return version | time_problem(torch, asked["problems"][0], asked)


def main():
    try:
        print(json.dumps(answer(json.loads(sys.argv[1]))))
    except Unsupported as error:
        print(json.dumps({"error": str(error)}))


if __name__ == "__main__":
    main()
