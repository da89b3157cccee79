-- SPDX-License-Identifier: MIT
-- Problems and variants of any operation: what were columns, one for each field and axis of every
-- operation, becomes a JSON object in each row. A new axis or operation needs no further schema. The
-- tables are written anew under their own names, which keeps the references to them; old_values.cpp
-- carries the rows over, because it knows the operations' fields and axes.

PRAGMA defer_foreign_keys = ON;
DROP VIEW all_results;

CREATE TEMP TABLE old_problem AS SELECT * FROM problem;
DROP TABLE problem;
-- JSON functions stand in views for people alone: SQLite up to 3.40 refuses them in the constraints of a
-- schema that is not trusted, and swr trusts none. What is read is checked. The index of the first UNIQUE
-- also finds the problems of a kind.
CREATE TABLE problem (
  id INTEGER PRIMARY KEY,
  op TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind GLOB '{*}'),
  sizes TEXT NOT NULL CHECK (sizes GLOB '{*}'),
  UNIQUE (op, kind, sizes)
) STRICT;

CREATE TEMP TABLE old_variant AS SELECT * FROM variant;
DROP TABLE variant;
CREATE TABLE variant (
  id INTEGER PRIMARY KEY,
  op TEXT NOT NULL,
  axes TEXT NOT NULL CHECK (axes GLOB '{*}'),
  UNIQUE (op, axes)
) STRICT;

-- Views with a column for each field and axis, one for each operation, stand on this one
-- (operation_views.cpp).
CREATE VIEW all_results AS
SELECT result.id AS result_id, run.id AS run_id, run.started_at, device.name AS device,
       device.sm_arch, problem.op,
       problem.kind, problem.sizes, variant.axes,
       result.provenance, result.state, result.detail,
       coalesce(result.median_us, result.time_us) AS time_us, result.p95_us,
       result.relative_error, result.registers_per_thread, result.spill_store_bytes,
       result.spill_load_bytes, result.stack_bytes, result.static_smem_bytes, result.wgmma_warnings, result.smem_bytes,
       result.ctas_per_sm, result.sectors_demanded, result.l2_lookups, result.l2_hits,
       result.l2_misses, result.l2_fabric_sectors, result.dram_read_bytes, result.dram_write_bytes,
       result.counters_missing_because,
       result.smem_load_wavefronts, result.smem_load_conflicts, result.smem_store_wavefronts,
       result.smem_store_conflicts, result.smem_copy_wavefronts, result.smem_copy_conflicts,
       result.smem_wgmma_wavefronts, result.smem_wgmma_conflicts, result.global_load_requests,
       result.global_load_sectors, result.global_load_bytes, result.global_store_requests,
       result.global_store_sectors, result.global_store_bytes, result.global_copy_requests,
       result.global_copy_sectors, result.global_copy_bytes, result.tma_load_sectors,
       result.accesses_missing_because,
       result.matrix_us, result.softmax_us, result.l2_us,
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
