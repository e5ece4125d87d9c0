import type { CoverageExtent } from '../../state/validate.ts';
import { decodeRows } from '../parquet/rows.ts';
import { datasets } from '../parquet/schema.ts';

/** How much of the time of each symbol's ticks is published as covered. */
export type CoverageExtents = Map<string, CoverageExtent>;

const extentColumns = datasets.coverage.filter(({ name }) => ['dataset', 'symbol', 't_from', 't_to'].includes(name));

/** Adds what one file of coverage says. @throws Error where it is no such file */
export function addCoverageExtents(extents: CoverageExtents, bytes: Uint8Array): void {
  for (const row of decodeRows(extentColumns, bytes)) {
    const [dataset, symbol, from, to] = row as [string, string, number, number];
    if (dataset !== 'ticks') continue;
    const was = extents.get(symbol);
    extents.set(symbol, {
      windows: (was?.windows ?? 0) + 1,
      ms: (was?.ms ?? 0) + to - from,
      from: Math.min(was?.from ?? from, from),
      to: Math.max(was?.to ?? to, to),
    });
  }
}
