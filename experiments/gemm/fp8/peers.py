# SPDX-License-Identifier: MIT
"""What fp8_gemm.py runs beside swr: DeepGEMM, where its package lies on PYTHONPATH, and PyTorch's experts."""

import collections

import torch

try:
    import deep_gemm
except (ImportError, OSError, RuntimeError, AssertionError) as missing:
    deep_gemm = None
    print("DeepGEMM is left out:", str(missing)[:200], flush=True)

# rows: of a group, on average.
Case = collections.namedtuple("Case", "kind form groups rows n k spread")

# Shapes of dense products that meet DeepGEMM: its kernels take 12 s to compile for each.
DENSE = {(4096, 4096, 4096), (8192, 8192, 8192), (4096, 7168, 16384), (4096, 24576, 1536), (4096, 4096, 7168),
         (64, 4096, 7168), (64, 7168, 2048)}
GROUPED = [Case(kind, form, groups, rows, n, k, spread)
           for n, k in ((4096, 7168), (7168, 2048))
           for kind, form, groups, rows, spreads in (
               ("block", "contiguous", 8, 1024, ("even", "drawn", "skewed")),
               ("block", "contiguous", 4, 8192, ("even",) if k == 7168 else ()),
               ("block", "masked", 8, 64, ("drawn", "skewed")), ("block", "masked", 4, 256, ("even",)),
               ("row", "offsets", 8, 1024, ("even", "drawn", "skewed", "empty")),
               ("row", "offsets", 8, 64, ("even", "drawn", "skewed", "empty")),
               ("row", "offsets", 64, 8, ("drawn",)))
           for spread in spreads]


def deep_gemm_product(problem, c, b):
    """The same block-scaled product; scales of A lie as DeepGEMM wants them."""
    of_a = problem.a_scales.t()[:problem.m]
    return lambda: deep_gemm.fp8_gemm_nt((problem.a, of_a), (b, problem.b_scales), c)


def grouped_product(problem):
    """The peer's name and a function that leaves its result in problem.peer_c."""
    p = problem
    if p.case.kind == "row":
        def experts():
            p.peer_c = torch._scaled_grouped_mm(p.a, p.b.mT, p.a_scales, p.b_scales, offs=p.numbers,
                                                out_dtype=torch.bfloat16, use_fast_accum=True)
        return "torch", experts
    if deep_gemm is None:
        return "deep_gemm", None
    p.peer_c = p.empty()
    of_a = p.a_scales.mT[..., :p.a.shape[-2], :]
    if p.case.form == "contiguous":
        return "deep_gemm", lambda: deep_gemm.m_grouped_fp8_gemm_nt_contiguous(
            (p.a, of_a), (p.b, p.b_scales), p.peer_c, p.numbers)
    return "deep_gemm", lambda: deep_gemm.m_grouped_fp8_gemm_nt_masked(
        (p.a, of_a), (p.b, p.b_scales), p.peer_c, p.numbers, p.case.rows)


def warm(part, parts):
    """Has DeepGEMM compile one of `parts` parts of its kernels."""
    from problems import Grouped, Problem
    if deep_gemm is None:
        return
    jobs = sorted(DENSE) + [case for case in GROUPED if case.kind == "block"]
    for job in jobs[part::parts]:
        if isinstance(job, Case):
            grouped_product(Grouped(job))[1]()
        else:
            problem = Problem(*job, "block")
            deep_gemm_product(problem, torch.empty(*job[:2], dtype=torch.bfloat16, device="cuda"), problem.b)()
        torch.cuda.synchronize()
        print("DeepGEMM has", job, flush=True)
