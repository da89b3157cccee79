-- SPDX-License-Identifier: MIT
-- How winners go to shared and to global memory, by hardware counter: wavefronts and bank conflicts by
-- kind of access, requests, sectors and bytes asked for by kind. NULL where nobody counted, which
-- accesses_missing_because (NULL as well) tells from a chip that does not count one of them.

ALTER TABLE result ADD COLUMN smem_load_wavefronts INTEGER;
ALTER TABLE result ADD COLUMN smem_load_conflicts INTEGER;
ALTER TABLE result ADD COLUMN smem_store_wavefronts INTEGER;
ALTER TABLE result ADD COLUMN smem_store_conflicts INTEGER;
ALTER TABLE result ADD COLUMN smem_copy_wavefronts INTEGER;
ALTER TABLE result ADD COLUMN smem_copy_conflicts INTEGER;
ALTER TABLE result ADD COLUMN smem_wgmma_wavefronts INTEGER;
ALTER TABLE result ADD COLUMN smem_wgmma_conflicts INTEGER;
ALTER TABLE result ADD COLUMN global_load_requests INTEGER;
ALTER TABLE result ADD COLUMN global_load_sectors INTEGER;
ALTER TABLE result ADD COLUMN global_load_bytes INTEGER;
ALTER TABLE result ADD COLUMN global_store_requests INTEGER;
ALTER TABLE result ADD COLUMN global_store_sectors INTEGER;
ALTER TABLE result ADD COLUMN global_store_bytes INTEGER;
ALTER TABLE result ADD COLUMN global_copy_requests INTEGER;
ALTER TABLE result ADD COLUMN global_copy_sectors INTEGER;
ALTER TABLE result ADD COLUMN global_copy_bytes INTEGER;
ALTER TABLE result ADD COLUMN tma_load_sectors INTEGER;
ALTER TABLE result ADD COLUMN accesses_missing_because TEXT
  CHECK (accesses_missing_because IS NULL OR provenance = 'measured');
