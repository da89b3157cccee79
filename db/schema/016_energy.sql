-- SPDX-License-Identifier: MIT
-- What launches take of energy, where somebody measured it: the mean over the runs, the runs as a JSON list,
-- the time of a launch in them, and what the idle GPU draws. And what a run and a decision are about: runs
-- and decisions so far are about time.

ALTER TABLE result ADD COLUMN energy_mj REAL CHECK (energy_mj > 0);
ALTER TABLE result ADD COLUMN energy_samples_mj TEXT CHECK (energy_samples_mj GLOB '[[]*]');
ALTER TABLE result ADD COLUMN energy_launch_us REAL CHECK (energy_launch_us > 0);
ALTER TABLE result ADD COLUMN idle_power_w REAL CHECK (idle_power_w >= 0);
ALTER TABLE result ADD COLUMN energy_missing_because TEXT
  CHECK (energy_missing_because IS NULL OR provenance = 'measured');

ALTER TABLE run ADD COLUMN objective TEXT NOT NULL DEFAULT 'time';
ALTER TABLE decision ADD COLUMN objective TEXT NOT NULL DEFAULT 'time';

DROP VIEW all_results;
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
       result.energy_mj, result.energy_launch_us, result.idle_power_w, result.energy_missing_because,
       result.matrix_us, result.softmax_us, result.l2_us,
       result.dram_us, result.latency_us, result.read_sectors, result.write_sectors,
       result.compulsory_misses, result.excess_misses, result.cubin_digest, coalesce(result.l2_state, run.l2_state) AS l2_state,
       result.sampling, result.sm_clock_mhz_before, result.sm_clock_mhz_after,
       result.memory_clock_mhz_before, result.memory_clock_mhz_after, result.temperature_c_before,
       result.temperature_c_after, result.power_mw_before, result.power_mw_after,
       result.throttle_reasons_before, result.throttle_reasons_after,
       result.condition_missing_because,
       EXISTS (SELECT 1 FROM decision WHERE decision.winner_id = result.id AND decision.objective = 'time') AS won,
       (SELECT group_concat(DISTINCT decision.objective) FROM decision
        WHERE decision.winner_id = result.id AND decision.objective <> 'time') AS won_by,
       run.command, run.swr_version, run.templates_digest, run.overlay_digest, run.nvrtc_version, run.driver_version,
       run.seed
FROM result
JOIN run ON run.id = result.run_id
JOIN device ON device.id = result.device_id
JOIN problem ON problem.id = result.problem_id
JOIN variant ON variant.id = result.variant_id;
