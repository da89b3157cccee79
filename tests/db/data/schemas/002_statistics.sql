-- SPDX-License-Identifier: MIT
-- How samples were taken, the GPU's condition around them, and decisions between finalists.
-- Predictions and rows without samples have NULL in the new columns of `result`.

ALTER TABLE result ADD COLUMN l2_state TEXT;
ALTER TABLE result ADD COLUMN sampling TEXT;
ALTER TABLE result ADD COLUMN sm_clock_mhz_before INTEGER;
ALTER TABLE result ADD COLUMN memory_clock_mhz_before INTEGER;
ALTER TABLE result ADD COLUMN temperature_c_before INTEGER;
ALTER TABLE result ADD COLUMN power_mw_before INTEGER;
ALTER TABLE result ADD COLUMN throttle_reasons_before INTEGER;
ALTER TABLE result ADD COLUMN sm_clock_mhz_after INTEGER;
ALTER TABLE result ADD COLUMN memory_clock_mhz_after INTEGER;
ALTER TABLE result ADD COLUMN temperature_c_after INTEGER;
ALTER TABLE result ADD COLUMN power_mw_after INTEGER;
ALTER TABLE result ADD COLUMN throttle_reasons_after INTEGER;
ALTER TABLE result ADD COLUMN condition_missing_because TEXT;

-- Until now every sample was taken with a warm L2, one variant after the other.
UPDATE result SET l2_state = 'warm', sampling = 'screening',
       condition_missing_because = 'recorded before conditions were'
WHERE id IN (SELECT result_id FROM sample);

-- Which variant won a comparison in shared rounds.
CREATE TABLE decision (
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES run (id),
  device_id INTEGER NOT NULL REFERENCES device (id),
  problem_id INTEGER NOT NULL REFERENCES problem (id),
  winner_id INTEGER NOT NULL REFERENCES result (id)
) STRICT;

CREATE INDEX decision_by_question ON decision (problem_id, device_id);

-- Those who took part, the winner included.
CREATE TABLE finalist (
  decision_id INTEGER NOT NULL REFERENCES decision (id),
  result_id INTEGER NOT NULL REFERENCES result (id),
  ratio REAL NOT NULL CHECK (ratio > 0),
  ratio_low REAL NOT NULL CHECK (ratio_low > 0),
  ratio_high REAL NOT NULL CHECK (ratio_high >= ratio_low),
  tied INTEGER NOT NULL CHECK (tied IN (0, 1)),
  PRIMARY KEY (decision_id, result_id)
) STRICT, WITHOUT ROWID;

DROP VIEW all_results;
CREATE VIEW all_results AS
SELECT result.id AS result_id, run.id AS run_id, run.started_at, device.name AS device,
       device.sm_arch, problem.batch, problem.heads_q, problem.heads_kv, problem.seq_q,
       problem.seq_kv, problem.head_dim, problem.dtype, problem.causal, problem.alignment_bytes,
       variant.family, variant.tile_m, variant.tile_n, variant.warps, variant.stages,
       variant."order", variant.persistence, variant.workers, variant.swizzle,
       variant.section_heads, variant.smem_swizzle, result.provenance, result.state, result.detail,
       coalesce(result.median_us, result.time_us) AS time_us, result.p95_us,
       result.relative_error, result.registers_per_thread, result.spill_store_bytes,
       result.spill_load_bytes, result.stack_bytes, result.static_smem_bytes, result.smem_bytes,
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
       run.command, run.swr_version, run.templates_digest, run.nvrtc_version, run.driver_version,
       run.seed
FROM result
JOIN run ON run.id = result.run_id
JOIN device ON device.id = result.device_id
JOIN problem ON problem.id = result.problem_id
JOIN variant ON variant.id = result.variant_id;
