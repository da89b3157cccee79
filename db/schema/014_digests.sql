-- SPDX-License-Identifier: MIT
-- A digest of each row's values, by which a bit that flipped on a disk is found (row_digests.cpp). NULL
-- means that nobody has vouched for the row: it was edited by hand, or comes from an older file. The
-- indexes are empty but for such rows.

ALTER TABLE device ADD COLUMN digest INTEGER;
ALTER TABLE problem ADD COLUMN digest INTEGER;
ALTER TABLE variant ADD COLUMN digest INTEGER;
ALTER TABLE run ADD COLUMN digest INTEGER;
ALTER TABLE result ADD COLUMN samples_digest INTEGER;
ALTER TABLE result ADD COLUMN digest INTEGER;
ALTER TABLE decision ADD COLUMN finalists_digest INTEGER;
ALTER TABLE decision ADD COLUMN digest INTEGER;
ALTER TABLE gpu_reference ADD COLUMN digest INTEGER;

CREATE INDEX device_unsealed ON device (id) WHERE digest IS NULL;
CREATE INDEX problem_unsealed ON problem (id) WHERE digest IS NULL;
CREATE INDEX variant_unsealed ON variant (id) WHERE digest IS NULL;
CREATE INDEX run_unsealed ON run (id) WHERE digest IS NULL;
CREATE INDEX result_unsealed ON result (id) WHERE digest IS NULL;
CREATE INDEX decision_unsealed ON decision (id) WHERE digest IS NULL;
CREATE INDEX gpu_reference_unsealed ON gpu_reference (id) WHERE digest IS NULL;
