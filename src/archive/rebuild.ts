import { join } from 'node:path';
import type { Origin } from '../core/coverage.ts';
import { addSegments } from '../state/coverage.ts';
import { type State, setMeta } from '../state/state.ts';
import { restoreSymbol } from '../state/symbols.ts';
import { datasets } from './datasets.ts';
import type { Disk } from './disk.ts';
import type { Layout } from './layout.ts';
import type { Manifest } from './manifest.ts';
import { decodeRows } from './parquet.ts';

/**
 * Fills an empty state from the published tree, where `.oddslake/` was lost: coverage, symbols and the generation.
 * What was journaled and not published is gone; the next poll asks for it again, since nothing covers it.
 */
export function rebuildState(state: State, manifest: Manifest, layout: Layout, disk: Disk): void {
  const { db } = state;
  db.transaction(() => {
    for (const file of manifest.datasets.symbols.files) {
      for (const row of decodeRows(datasets.symbols, disk.read(join(layout.root, file.path)))) restoreSymbol(db, row);
    }
    const polledFrom = new Map<string, number>();
    for (const file of manifest.datasets.coverage.files) {
      for (const row of decodeRows(datasets.coverage, disk.read(join(layout.root, file.path)))) {
        const [dataset, symbol, from, to, , fetchedAt, origin] = row as [
          string,
          string,
          number,
          number,
          number,
          number,
          Origin,
        ];
        if (dataset !== 'ticks') continue;
        addSegments(db, symbol, [{ from, to, fetchedAt, origin }]);
        if (origin === 'poll') polledFrom.set(symbol, Math.min(from, polledFrom.get(symbol) ?? from));
      }
    }
    for (const [symbol, from] of polledFrom)
      db.run('update symbols set polled_from = ? where symbol = ?', from, symbol);
    setMeta(db, 'generation', String(manifest.generation));
  });
}
