import type { Extent } from '../../state/validate.ts';
import { decodeRows } from '../parquet/rows.ts';
import { datasets } from '../parquet/schema.ts';

/** How much of the time of each symbol's ticks is published as covered. */
export type Extents = Map<string, Extent>;

const told = datasets.coverage.filter(({ name }) => ['dataset', 'symbol', 't_from', 't_to'].includes(name));

/** Adds what one file of coverage says. @throws Error where it is no such file */
export function addExtents(extents: Extents, bytes: Uint8Array): void {
  for (const row of decodeRows(told, bytes)) {
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
