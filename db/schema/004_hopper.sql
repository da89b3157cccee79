-- SPDX-License-Identifier: MIT
-- What the compiler log of the Hopper family says.

ALTER TABLE result ADD COLUMN wgmma_warnings INTEGER NOT NULL DEFAULT 0;
