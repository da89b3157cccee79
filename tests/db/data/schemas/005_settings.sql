-- SPDX-License-Identifier: MIT
-- What tells results apart that are never compared, beside the L2 state: templates that replaced
-- built-in ones. And the threshold of a decision. Runs so far count as built from built-in
-- templates; decisions so far do not say their threshold.

ALTER TABLE run ADD COLUMN overlay_digest TEXT NOT NULL DEFAULT '';
ALTER TABLE decision ADD COLUMN tie_threshold REAL CHECK (tie_threshold >= 0);

DROP VIEW all_results;
CREATE VIEW all_results AS
SELECT result.id AS result_id, run.id AS run_id, run.started_at, device.name AS device,
       device.sm_arch, problem.batch, problem.heads_q, problem.heads_kv, problem.seq_q,
       problem.seq_kv, problem.head_dim, problem.dtype, problem.causal, problem.alignment_bytes,
       variant.family, variant.tile_m, variant.tile_n, variant.warps, variant.stages,
       variant."order", variant.persistence, variant.workers, variant.swizzle,
       variant.section_heads, variant.smem_swizzle, variant.mainloop, variant.p_operand,
       variant.exp2_fma_eighths, variant.unroll, result.provenance, result.state, result.detail,
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
