-- SPDX-License-Identifier: MIT
-- A second operation. Rows so far are of attention.

ALTER TABLE problem ADD COLUMN op TEXT NOT NULL DEFAULT 'attention';
ALTER TABLE variant ADD COLUMN op TEXT NOT NULL DEFAULT 'attention';
