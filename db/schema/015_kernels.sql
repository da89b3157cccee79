-- SPDX-License-Identifier: MIT
-- The kernels of users whose rows the file has, each with its spec and the sources that it names, so that
-- results say something where the spec's files are not at hand. Older files know the names alone
-- (kernels.cpp).

CREATE TABLE kernel (
  id INTEGER PRIMARY KEY,
  op TEXT NOT NULL UNIQUE,
  spec_digest TEXT,
  spec TEXT,
  digest INTEGER,
  CHECK ((spec_digest IS NULL) = (spec IS NULL))
) STRICT;
CREATE INDEX kernel_unsealed ON kernel (id) WHERE digest IS NULL;
