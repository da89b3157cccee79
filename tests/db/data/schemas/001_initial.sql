-- SPDX-License-Identifier: MIT
-- The first schema. docs/db_schema.md explains every column. Enumerations are stored as their text
-- spellings; those of append-only enumerations carry no CHECK, so that a new value needs no
-- migration. The columns of `variant` are the axes of swr::axes(), which a test proves.

CREATE TABLE device (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  sm_arch INTEGER NOT NULL,
  sm_count INTEGER NOT NULL CHECK (sm_count > 0),
  l2_bytes INTEGER NOT NULL CHECK (l2_bytes > 0),
  dram_gb_per_s REAL NOT NULL CHECK (dram_gb_per_s > 0),
  mig INTEGER NOT NULL CHECK (mig IN (0, 1)),
  smem_per_cta_bytes INTEGER NOT NULL,
  smem_per_sm_bytes INTEGER NOT NULL,
  smem_reserved_per_cta_bytes INTEGER NOT NULL,
  registers_per_sm INTEGER NOT NULL,
  max_threads_per_sm INTEGER NOT NULL,
  max_ctas_per_sm INTEGER NOT NULL,
  UNIQUE (name, sm_arch, sm_count, l2_bytes, dram_gb_per_s, mig, smem_per_cta_bytes,
          smem_per_sm_bytes, smem_reserved_per_cta_bytes, registers_per_sm, max_threads_per_sm,
          max_ctas_per_sm)
) STRICT;

CREATE TABLE problem (
  id INTEGER PRIMARY KEY,
  batch INTEGER NOT NULL CHECK (batch > 0),
  heads_q INTEGER NOT NULL CHECK (heads_q > 0),
  heads_kv INTEGER NOT NULL CHECK (heads_kv > 0),
  seq_q INTEGER NOT NULL CHECK (seq_q > 0),
  seq_kv INTEGER NOT NULL CHECK (seq_kv > 0),
  head_dim INTEGER NOT NULL CHECK (head_dim > 0),
  dtype TEXT NOT NULL,
  causal INTEGER NOT NULL CHECK (causal IN (0, 1)),
  alignment_bytes INTEGER NOT NULL CHECK (alignment_bytes > 0),
  UNIQUE (batch, heads_q, heads_kv, seq_q, seq_kv, head_dim, dtype, causal, alignment_bytes)
) STRICT;

CREATE TABLE variant (
  id INTEGER PRIMARY KEY,
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
  UNIQUE (family, tile_m, tile_n, warps, stages, "order", persistence, workers, swizzle,
          section_heads, smem_swizzle)
) STRICT;

CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  started_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  command TEXT NOT NULL,
  swr_version TEXT NOT NULL,
  templates_digest TEXT NOT NULL,
  nvrtc_version TEXT NOT NULL,
  driver_version TEXT NOT NULL,
  l2_state TEXT NOT NULL CHECK (l2_state IN ('', 'warm', 'cold')),
  seed INTEGER NOT NULL
) STRICT;

CREATE TABLE result (
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES run (id),
  device_id INTEGER NOT NULL REFERENCES device (id),
  problem_id INTEGER NOT NULL REFERENCES problem (id),
  variant_id INTEGER NOT NULL REFERENCES variant (id),
  provenance TEXT NOT NULL CHECK (provenance IN ('measured', 'predicted')),
  state TEXT NOT NULL,
  detail TEXT NOT NULL,
  registers_per_thread INTEGER NOT NULL,
  spill_store_bytes INTEGER NOT NULL,
  spill_load_bytes INTEGER NOT NULL,
  stack_bytes INTEGER NOT NULL,
  static_smem_bytes INTEGER NOT NULL,
  smem_bytes INTEGER NOT NULL,
  ctas_per_sm INTEGER NOT NULL,
  cubin_digest TEXT NOT NULL,
  -- Observed on a GPU.
  median_us REAL,
  p95_us REAL,
  relative_error REAL,
  sectors_demanded INTEGER,
  l2_lookups INTEGER,
  l2_hits INTEGER,
  l2_misses INTEGER,
  l2_fabric_sectors INTEGER,
  dram_read_bytes INTEGER,
  dram_write_bytes INTEGER,
  counters_missing_because TEXT,
  -- Modelled.
  time_us REAL,
  matrix_us REAL,
  softmax_us REAL,
  l2_us REAL,
  dram_us REAL,
  latency_us REAL,
  read_sectors INTEGER,
  write_sectors INTEGER,
  compulsory_misses INTEGER,
  excess_misses INTEGER,
  -- A prediction never passes for a measurement, nor the other way round.
  CHECK (provenance = 'measured' OR
         (median_us IS NULL AND p95_us IS NULL AND relative_error IS NULL AND
          sectors_demanded IS NULL AND counters_missing_because IS NULL)),
  CHECK (provenance = 'predicted' OR (time_us IS NULL AND read_sectors IS NULL)),
  CHECK (state <> 'ok' OR coalesce(median_us, time_us, 0) > 0)
) STRICT;

CREATE INDEX result_by_question ON result (problem_id, device_id, variant_id, provenance);

CREATE TABLE sample (
  result_id INTEGER NOT NULL REFERENCES result (id),
  position INTEGER NOT NULL,
  time_us REAL NOT NULL CHECK (time_us >= 0),
  PRIMARY KEY (result_id, position)
) STRICT, WITHOUT ROWID;

-- For people with the sqlite3 shell: one row per result with everything it belongs to.
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
       result.compulsory_misses, result.excess_misses, result.cubin_digest, run.l2_state,
       run.command, run.swr_version, run.templates_digest, run.nvrtc_version, run.driver_version,
       run.seed
FROM result
JOIN run ON run.id = result.run_id
JOIN device ON device.id = result.device_id
JOIN problem ON problem.id = result.problem_id
JOIN variant ON variant.id = result.variant_id;
