-- SPDX-License-Identifier: MIT
-- The tables of a database, schema 16. docs/db_schema.md explains every column. Files are compared with this
-- text but for white space, and a digest is of a row's values in the order of its columns, so columns stand
-- in the order in which they came. Enumerations are stored as their spellings; those that may grow have no
-- CHECK. JSON functions stand in views alone: SQLite up to 3.40 refuses them in the constraints of a schema
-- that is not trusted.

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
  digest INTEGER,
  UNIQUE (name, sm_arch, sm_count, l2_bytes, dram_gb_per_s, mig, smem_per_cta_bytes,
          smem_per_sm_bytes, smem_reserved_per_cta_bytes, registers_per_sm, max_threads_per_sm,
          max_ctas_per_sm)
) STRICT;
-- A digest of NULL means that nobody has vouched for the row (row_digests.cpp): these indexes hold few.
CREATE INDEX device_unsealed ON device (id) WHERE digest IS NULL;

-- Kernels of users whose rows the file has, each with its spec and the sources that it names (kernels.cpp).
CREATE TABLE kernel (
  id INTEGER PRIMARY KEY,
  op TEXT NOT NULL UNIQUE,
  spec_digest TEXT,
  spec TEXT,
  digest INTEGER,
  CHECK ((spec_digest IS NULL) = (spec IS NULL))
) STRICT;
CREATE INDEX kernel_unsealed ON kernel (id) WHERE digest IS NULL;

-- The index of UNIQUE also finds the problems of a kind.
CREATE TABLE problem (
  id INTEGER PRIMARY KEY,
  op TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind GLOB '{*}'),
  sizes TEXT NOT NULL CHECK (sizes GLOB '{*}'),
  digest INTEGER,
  UNIQUE (op, kind, sizes)
) STRICT;
CREATE INDEX problem_unsealed ON problem (id) WHERE digest IS NULL;

CREATE TABLE variant (
  id INTEGER PRIMARY KEY,
  op TEXT NOT NULL,
  axes TEXT NOT NULL CHECK (axes GLOB '{*}'),
  digest INTEGER,
  UNIQUE (op, axes)
) STRICT;
CREATE INDEX variant_unsealed ON variant (id) WHERE digest IS NULL;

-- finished_at is NULL while the run lasts, and for ever when it was interrupted or ran out of time. Runs with
-- equal conditions continue each other; empty ones continue nothing.
CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  started_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  command TEXT NOT NULL,
  swr_version TEXT NOT NULL,
  templates_digest TEXT NOT NULL,
  nvrtc_version TEXT NOT NULL,
  driver_version TEXT NOT NULL,
  l2_state TEXT NOT NULL CHECK (l2_state IN ('', 'warm', 'cold')),
  seed INTEGER NOT NULL,
  finished_at TEXT,
  strategy TEXT NOT NULL DEFAULT 'exhaustive',
  max_variants INTEGER,
  max_s REAL,
  conditions TEXT NOT NULL DEFAULT '',
  starts_over INTEGER NOT NULL DEFAULT 0 CHECK (starts_over IN (0, 1)),
  overlay_digest TEXT NOT NULL DEFAULT '',
  digest INTEGER,
  objective TEXT NOT NULL DEFAULT 'time'
) STRICT;
CREATE INDEX run_unsealed ON run (id) WHERE digest IS NULL;

-- Energy is the mean over runs of launches, which are a JSON list. Columns of what nobody measured are NULL.
CREATE TABLE result (
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES run (id),
  device_id INTEGER NOT NULL REFERENCES device (id),
  problem_id INTEGER NOT NULL REFERENCES problem (id),
  variant_id INTEGER NOT NULL REFERENCES variant (id),
  provenance TEXT NOT NULL CHECK (provenance IN ('measured', 'predicted')),
  state TEXT NOT NULL, detail TEXT NOT NULL, registers_per_thread INTEGER NOT NULL,
  spill_store_bytes INTEGER NOT NULL, spill_load_bytes INTEGER NOT NULL,
  stack_bytes INTEGER NOT NULL, static_smem_bytes INTEGER NOT NULL, smem_bytes INTEGER NOT NULL,
  ctas_per_sm INTEGER NOT NULL, cubin_digest TEXT NOT NULL,
  -- Observed on a GPU.
  median_us REAL, p95_us REAL, relative_error REAL, sectors_demanded INTEGER, l2_lookups INTEGER,
  l2_hits INTEGER, l2_misses INTEGER, l2_fabric_sectors INTEGER, dram_read_bytes INTEGER,
  dram_write_bytes INTEGER, counters_missing_because TEXT,
  -- Modelled.
  time_us REAL, matrix_us REAL, softmax_us REAL, l2_us REAL, dram_us REAL, latency_us REAL,
  read_sectors INTEGER, write_sectors INTEGER, compulsory_misses INTEGER, excess_misses INTEGER,
  l2_state TEXT, sampling TEXT, sm_clock_mhz_before INTEGER, memory_clock_mhz_before INTEGER,
  temperature_c_before INTEGER, power_mw_before INTEGER, throttle_reasons_before INTEGER,
  sm_clock_mhz_after INTEGER, memory_clock_mhz_after INTEGER, temperature_c_after INTEGER,
  power_mw_after INTEGER, throttle_reasons_after INTEGER, condition_missing_because TEXT,
  wgmma_warnings INTEGER NOT NULL DEFAULT 0,
  smem_load_wavefronts INTEGER, smem_load_conflicts INTEGER, smem_store_wavefronts INTEGER,
  smem_store_conflicts INTEGER, smem_copy_wavefronts INTEGER, smem_copy_conflicts INTEGER,
  smem_wgmma_wavefronts INTEGER, smem_wgmma_conflicts INTEGER, global_load_requests INTEGER,
  global_load_sectors INTEGER, global_load_bytes INTEGER, global_store_requests INTEGER,
  global_store_sectors INTEGER, global_store_bytes INTEGER, global_copy_requests INTEGER,
  global_copy_sectors INTEGER, global_copy_bytes INTEGER, tma_load_sectors INTEGER,
  accesses_missing_because TEXT
  CHECK (accesses_missing_because IS NULL OR provenance = 'measured'),
  samples_digest INTEGER, digest INTEGER,
  energy_mj REAL CHECK (energy_mj > 0),
  energy_samples_mj TEXT CHECK (energy_samples_mj GLOB '[[]*]'),
  energy_launch_us REAL CHECK (energy_launch_us > 0),
  idle_power_w REAL CHECK (idle_power_w >= 0),
  energy_missing_because TEXT
  CHECK (energy_missing_because IS NULL OR provenance = 'measured'),
  -- A prediction never passes for a measurement, nor the other way round.
  CHECK (provenance = 'measured' OR
         (median_us IS NULL AND p95_us IS NULL AND relative_error IS NULL AND
          sectors_demanded IS NULL AND counters_missing_because IS NULL)),
  CHECK (provenance = 'predicted' OR (time_us IS NULL AND read_sectors IS NULL)),
  CHECK (state <> 'ok' OR coalesce(median_us, time_us, 0) > 0)
) STRICT;
CREATE INDEX result_by_question ON result (problem_id, device_id, variant_id, provenance);
CREATE INDEX result_unsealed ON result (id) WHERE digest IS NULL;

CREATE TABLE sample (
  result_id INTEGER NOT NULL REFERENCES result (id),
  position INTEGER NOT NULL,
  time_us REAL NOT NULL CHECK (time_us >= 0),
  PRIMARY KEY (result_id, position)
) STRICT, WITHOUT ROWID;

-- Which variant won a comparison in shared rounds, and those who took part, the winner included.
CREATE TABLE decision (
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES run (id),
  device_id INTEGER NOT NULL REFERENCES device (id),
  problem_id INTEGER NOT NULL REFERENCES problem (id),
  winner_id INTEGER NOT NULL REFERENCES result (id),
  tie_threshold REAL CHECK (tie_threshold >= 0),
  finalists_digest INTEGER,
  digest INTEGER,
  objective TEXT NOT NULL DEFAULT 'time'
) STRICT;
CREATE INDEX decision_by_question ON decision (problem_id, device_id);
CREATE INDEX decision_unsealed ON decision (id) WHERE digest IS NULL;

CREATE TABLE finalist (
  decision_id INTEGER NOT NULL REFERENCES decision (id),
  result_id INTEGER NOT NULL REFERENCES result (id),
  ratio REAL NOT NULL CHECK (ratio > 0),
  ratio_low REAL NOT NULL CHECK (ratio_low > 0),
  ratio_high REAL NOT NULL CHECK (ratio_high >= ratio_low),
  tied INTEGER NOT NULL CHECK (tied IN (0, 1)),
  PRIMARY KEY (decision_id, result_id)
) STRICT, WITHOUT ROWID;

-- What each GPU of a run took for the same kernel at the start and after every problem: drift and unequal
-- cards show.
CREATE TABLE gpu_reference (
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES run (id),
  device_id INTEGER NOT NULL REFERENCES device (id),
  gpu INTEGER NOT NULL CHECK (gpu >= 0),
  card TEXT NOT NULL,
  measured_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  tuned TEXT NOT NULL, kernel TEXT NOT NULL, state TEXT NOT NULL, median_us REAL,
  sm_clock_mhz INTEGER, memory_clock_mhz INTEGER, temperature_c INTEGER, power_mw INTEGER,
  throttle_reasons INTEGER, digest INTEGER,
  CHECK (state <> 'ok' OR median_us > 0)
) STRICT;
CREATE INDEX gpu_reference_by_run ON gpu_reference (run_id);
CREATE INDEX gpu_reference_unsealed ON gpu_reference (id) WHERE digest IS NULL;

-- The views of operations, with a column for each field and axis, stand on this one (kernels.cpp).
CREATE VIEW all_results AS
SELECT result.id AS result_id, run.id AS run_id, started_at, device.name AS device, sm_arch,
       problem.op, problem.kind, problem.sizes, variant.axes, provenance, state, detail,
       coalesce(result.median_us, result.time_us) AS time_us, p95_us, relative_error,
       registers_per_thread, spill_store_bytes, spill_load_bytes, stack_bytes, static_smem_bytes,
       wgmma_warnings, smem_bytes, ctas_per_sm, sectors_demanded, l2_lookups, l2_hits, l2_misses,
       l2_fabric_sectors, dram_read_bytes, dram_write_bytes, counters_missing_because,
       smem_load_wavefronts, smem_load_conflicts, smem_store_wavefronts, smem_store_conflicts,
       smem_copy_wavefronts, smem_copy_conflicts, smem_wgmma_wavefronts, smem_wgmma_conflicts,
       global_load_requests, global_load_sectors, global_load_bytes, global_store_requests,
       global_store_sectors, global_store_bytes, global_copy_requests, global_copy_sectors,
       global_copy_bytes, tma_load_sectors, accesses_missing_because, energy_mj, energy_launch_us,
       idle_power_w, energy_missing_because, matrix_us, softmax_us, l2_us, dram_us, latency_us,
       read_sectors, write_sectors, compulsory_misses, excess_misses, cubin_digest,
       coalesce(result.l2_state, run.l2_state) AS l2_state, sampling, sm_clock_mhz_before,
       sm_clock_mhz_after, memory_clock_mhz_before, memory_clock_mhz_after, temperature_c_before,
       temperature_c_after, power_mw_before, power_mw_after, throttle_reasons_before,
       throttle_reasons_after, condition_missing_because,
       EXISTS (SELECT 1 FROM decision WHERE winner_id = result.id AND decision.objective = 'time') AS won,
       (SELECT group_concat(DISTINCT decision.objective) FROM decision
        WHERE winner_id = result.id AND decision.objective <> 'time') AS won_by,
       command, swr_version, templates_digest, overlay_digest, nvrtc_version, driver_version, seed
FROM result
JOIN run ON run.id = result.run_id
JOIN device ON device.id = result.device_id
JOIN problem ON problem.id = result.problem_id
JOIN variant ON variant.id = result.variant_id;
