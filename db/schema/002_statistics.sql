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
