-- SPDX-License-Identifier: MIT
-- What tells results apart that are never compared, beside the L2 state: templates that replaced
-- built-in ones. And the threshold of a decision. Runs so far count as built from built-in
-- templates; decisions so far do not say their threshold.

ALTER TABLE run ADD COLUMN overlay_digest TEXT NOT NULL DEFAULT '';
ALTER TABLE decision ADD COLUMN tie_threshold REAL CHECK (tie_threshold >= 0);
