-- SPDX-License-Identifier: MIT
-- The first schema. docs/db_schema.md explains every column. Enumerations are stored as their text
-- spellings; those of append-only enumerations carry no CHECK, so that a new value needs no
-- migration. Problems and variants have their columns from schema 13 on: files from before then had
-- one for each field and axis, which 013_operations.sql finds by name, so that the steps in between
-- leave both tables alone.

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

CREATE TABLE problem (id INTEGER PRIMARY KEY) STRICT;
CREATE TABLE variant (id INTEGER PRIMARY KEY) STRICT;

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
