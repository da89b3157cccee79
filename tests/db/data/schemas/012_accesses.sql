-- SPDX-License-Identifier: MIT
-- How winners go to shared and to global memory, by hardware counter: wavefronts and bank conflicts by
-- kind of access, requests, sectors and bytes asked for by kind. NULL where nobody counted, which
-- accesses_missing_because (NULL as well) tells from a chip that does not count one of them.

DROP VIEW all_results;

ALTER TABLE result ADD COLUMN smem_load_wavefronts INTEGER;
ALTER TABLE result ADD COLUMN smem_load_conflicts INTEGER;
ALTER TABLE result ADD COLUMN smem_store_wavefronts INTEGER;
ALTER TABLE result ADD COLUMN smem_store_conflicts INTEGER;
ALTER TABLE result ADD COLUMN smem_copy_wavefronts INTEGER;
ALTER TABLE result ADD COLUMN smem_copy_conflicts INTEGER;
ALTER TABLE result ADD COLUMN smem_wgmma_wavefronts INTEGER;
ALTER TABLE result ADD COLUMN smem_wgmma_conflicts INTEGER;
ALTER TABLE result ADD COLUMN global_load_requests INTEGER;
ALTER TABLE result ADD COLUMN global_load_sectors INTEGER;
ALTER TABLE result ADD COLUMN global_load_bytes INTEGER;
ALTER TABLE result ADD COLUMN global_store_requests INTEGER;
ALTER TABLE result ADD COLUMN global_store_sectors INTEGER;
ALTER TABLE result ADD COLUMN global_store_bytes INTEGER;
ALTER TABLE result ADD COLUMN global_copy_requests INTEGER;
ALTER TABLE result ADD COLUMN global_copy_sectors INTEGER;
ALTER TABLE result ADD COLUMN global_copy_bytes INTEGER;
ALTER TABLE result ADD COLUMN tma_load_sectors INTEGER;
ALTER TABLE result ADD COLUMN accesses_missing_because TEXT
  CHECK (accesses_missing_because IS NULL OR provenance = 'measured');

CREATE VIEW all_results AS
SELECT result.id AS result_id, run.id AS run_id, run.started_at, device.name AS device,
       device.sm_arch, problem.op, problem.batch, problem.heads_q, problem.heads_kv, problem.seq_q,
       problem.seq_kv, problem.head_dim, problem.dtype, problem.causal, problem.m, problem.n,
       problem.k, problem.output, problem.layout, problem.reads_c, problem.alignment_bytes,
       variant.family, variant.tile_m, variant.tile_n, variant.warps, variant.stages,
       variant."order", variant.persistence, variant.workers, variant.swizzle,
       variant.section_heads, variant.smem_swizzle, variant.kv_splits, variant.pack_gqa,
       variant.longest_first, variant.kv_copy, variant.mainloop, variant.p_operand,
       variant.exp2_fma_eighths, variant.unroll, variant.tile_k, variant.warps_m, variant.warps_n,
       variant.consumers, variant.cluster_m, variant.cluster_n, variant.cluster_k, variant.k_order, variant.splits,
       variant.raster, variant.raster_group, variant.swizzle_stride, result.provenance, result.state, result.detail,
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
