-- SPDX-License-Identifier: MIT
-- What a run was asked to do and whether it did it, so that a later run continues where one stopped.

-- NULL while the run lasts, and for ever when it was interrupted or ran out of time.
ALTER TABLE run ADD COLUMN finished_at TEXT;
ALTER TABLE run ADD COLUMN strategy TEXT NOT NULL DEFAULT 'exhaustive';
ALTER TABLE run ADD COLUMN max_variants INTEGER;
ALTER TABLE run ADD COLUMN max_s REAL;
-- How results were taken, beyond versions and L2 state. Runs with equal text continue each other;
-- an empty one, as in all runs so far, continues nothing.
ALTER TABLE run ADD COLUMN conditions TEXT NOT NULL DEFAULT '';
-- 1 when earlier results were to be taken anew.
ALTER TABLE run ADD COLUMN starts_over INTEGER NOT NULL DEFAULT 0 CHECK (starts_over IN (0, 1));
