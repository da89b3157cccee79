-- SPDX-License-Identifier: MIT
-- Runs on several GPUs at once: what each of them took for the same kernel at the start, after every
-- problem and so at the end, by which drift and unequal cards show.

CREATE TABLE gpu_reference (
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES run (id),
  device_id INTEGER NOT NULL REFERENCES device (id),
  gpu INTEGER NOT NULL CHECK (gpu >= 0),
  card TEXT NOT NULL,
  measured_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  tuned TEXT NOT NULL,
  kernel TEXT NOT NULL,
  state TEXT NOT NULL,
  median_us REAL,
  sm_clock_mhz INTEGER,
  memory_clock_mhz INTEGER,
  temperature_c INTEGER,
  power_mw INTEGER,
  throttle_reasons INTEGER,
  CHECK (state <> 'ok' OR median_us > 0)
) STRICT;
CREATE INDEX gpu_reference_by_run ON gpu_reference (run_id);
