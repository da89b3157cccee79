-- SPDX-License-Identifier: MIT
-- A second operation. Problems and variants of both stand in one table each, as the axes of several
-- families do: columns that belong to another operation alone hold 0 or an empty text. Rows so far
-- are of attention. SQLite cannot extend a constraint, so both tables are written anew under their
-- own names, which keeps the references to them.

PRAGMA defer_foreign_keys = ON;
DROP VIEW all_results;

CREATE TEMP TABLE old_problem AS SELECT * FROM problem;
DROP TABLE problem;
CREATE TABLE problem (
  id INTEGER PRIMARY KEY,
  op TEXT NOT NULL,
  batch INTEGER NOT NULL CHECK (batch > 0),
  heads_q INTEGER NOT NULL,
  heads_kv INTEGER NOT NULL,
  seq_q INTEGER NOT NULL,
  seq_kv INTEGER NOT NULL,
  head_dim INTEGER NOT NULL,
  dtype TEXT NOT NULL,
  causal INTEGER NOT NULL CHECK (causal IN (0, 1)),
  m INTEGER NOT NULL,
  n INTEGER NOT NULL,
  k INTEGER NOT NULL,
  output TEXT NOT NULL,
  layout TEXT NOT NULL,
  reads_c INTEGER NOT NULL CHECK (reads_c IN (0, 1)),
  alignment_bytes INTEGER NOT NULL CHECK (alignment_bytes > 0),
  CHECK (op <> 'attention' OR (heads_q > 0 AND heads_kv > 0 AND seq_q > 0 AND seq_kv > 0 AND
                               head_dim > 0)),
  CHECK (op <> 'gemm' OR (m > 0 AND n > 0 AND k > 0)),
  UNIQUE (op, batch, heads_q, heads_kv, seq_q, seq_kv, head_dim, dtype, causal, m, n, k, output,
          layout, reads_c, alignment_bytes)
) STRICT;
INSERT INTO problem
SELECT id, 'attention', batch, heads_q, heads_kv, seq_q, seq_kv, head_dim, dtype, causal, 0, 0, 0,
       '', '', 0, alignment_bytes
FROM old_problem;
DROP TABLE old_problem;

CREATE TEMP TABLE old_variant AS SELECT * FROM variant;
DROP TABLE variant;
CREATE TABLE variant (
  id INTEGER PRIMARY KEY,
  op TEXT NOT NULL,
  family TEXT NOT NULL,
  tile_m INTEGER NOT NULL,
  tile_n INTEGER NOT NULL,
  warps INTEGER NOT NULL,
  stages INTEGER NOT NULL,
  "order" TEXT NOT NULL,
  persistence TEXT NOT NULL,
  workers INTEGER NOT NULL,
  swizzle TEXT NOT NULL,
  section_heads INTEGER NOT NULL,
  smem_swizzle TEXT NOT NULL,
  mainloop TEXT NOT NULL,
  p_operand TEXT NOT NULL,
  exp2_fma_eighths INTEGER NOT NULL,
  unroll INTEGER NOT NULL,
  tile_k INTEGER NOT NULL,
  warps_m INTEGER NOT NULL,
  warps_n INTEGER NOT NULL,
  consumers INTEGER NOT NULL,
  cluster_m INTEGER NOT NULL,
  cluster_n INTEGER NOT NULL,
  k_order TEXT NOT NULL,
  splits INTEGER NOT NULL,
  raster TEXT NOT NULL,
  raster_group INTEGER NOT NULL,
  swizzle_stride INTEGER NOT NULL,
  UNIQUE (op, family, tile_m, tile_n, warps, stages, "order", persistence, workers, swizzle,
          section_heads, smem_swizzle, mainloop, p_operand, exp2_fma_eighths, unroll, tile_k,
          warps_m, warps_n, consumers, cluster_m, cluster_n, k_order, splits, raster, raster_group,
          swizzle_stride)
) STRICT;
INSERT INTO variant
SELECT id, 'attention', family, tile_m, tile_n, warps, stages, "order", persistence, workers,
       swizzle, section_heads, smem_swizzle, mainloop, p_operand, exp2_fma_eighths, unroll, 0, 0, 0,
       0, 0, 0, '', 0, '', 0, 0
FROM old_variant;
DROP TABLE old_variant;

CREATE VIEW all_results AS
SELECT result.id AS result_id, run.id AS run_id, run.started_at, device.name AS device,
       device.sm_arch, problem.op, problem.batch, problem.heads_q, problem.heads_kv, problem.seq_q,
       problem.seq_kv, problem.head_dim, problem.dtype, problem.causal, problem.m, problem.n,
       problem.k, problem.output, problem.layout, problem.reads_c, problem.alignment_bytes,
       variant.family, variant.tile_m, variant.tile_n, variant.warps, variant.stages,
       variant."order", variant.persistence, variant.workers, variant.swizzle,
       variant.section_heads, variant.smem_swizzle, variant.mainloop, variant.p_operand,
       variant.exp2_fma_eighths, variant.unroll, variant.tile_k, variant.warps_m, variant.warps_n,
       variant.consumers, variant.cluster_m, variant.cluster_n, variant.k_order, variant.splits,
       variant.raster, variant.raster_group, variant.swizzle_stride, result.provenance, result.state, result.detail,
       coalesce(result.median_us, result.time_us) AS time_us, result.p95_us,
       result.relative_error, result.registers_per_thread, result.spill_store_bytes,
       result.spill_load_bytes, result.stack_bytes, result.static_smem_bytes, result.wgmma_warnings, result.smem_bytes,
       result.ctas_per_sm, result.sectors_demanded, result.l2_lookups, result.l2_hits,
       result.l2_misses, result.l2_fabric_sectors, result.dram_read_bytes, result.dram_write_bytes,
       result.counters_missing_because, result.matrix_us, result.softmax_us, result.l2_us,
       result.dram_us, result.latency_us, result.read_sectors, result.write_sectors,
       result.compulsory_misses, result.excess_misses, result.cubin_digest, coalesce(result.l2_state, run.l2_state) AS l2_state,
       result.sampling, result.sm_clock_mhz_before, result.sm_clock_mhz_after,
       result.memory_clock_mhz_before, result.memory_clock_mhz_after, result.temperature_c_before,
       result.temperature_c_after, result.power_mw_before, result.power_mw_after,
       result.throttle_reasons_before, result.throttle_reasons_after,
       result.condition_missing_because,
       EXISTS (SELECT 1 FROM decision WHERE decision.winner_id = result.id) AS won,
       run.command, run.swr_version, run.templates_digest, run.overlay_digest, run.nvrtc_version, run.driver_version,
       run.seed
FROM result
JOIN run ON run.id = result.run_id
JOIN device ON device.id = result.device_id
JOIN problem ON problem.id = result.problem_id
JOIN variant ON variant.id = result.variant_id;
