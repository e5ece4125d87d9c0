import { join } from 'node:path';
import type { Origin } from '../core/coverage.ts';
import { addSegments } from '../state/coverage.ts';
import { manifestHashKey, rebuiltKey, type State, setMeta } from '../state/state.ts';
import { restoreSymbol } from '../state/symbols.ts';
import { datasets } from './datasets.ts';
import { type Disk, sha256 } from './disk.ts';
import type { Layout } from './layout.ts';
import type { Manifest } from './manifest.ts';
import { decodeRows } from './parquet.ts';

/**
 * Fills an empty state from the published tree, where `.oddslake/` was lost: coverage, symbols and the generation.
 * What was journaled and not published is gone; the next poll asks for it again, since nothing covers it.
 */
export function rebuildState(state: State, manifest: Manifest, layout: Layout, disk: Disk, settleMs: number): void {
  const { db } = state;
  db.transaction(() => {
    // Another process may have been quicker.
    if (state.generation() > 0) return;
    for (const row of intactRows('symbols', manifest, layout, disk)) restoreSymbol(db, row);
    const polledFrom = new Map<string, number>();
    for (const row of intactRows('coverage', manifest, layout, disk)) {
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
      addSegments(db, symbol, [{ from, to, fetchedAt, origin }], settleMs);
      if (origin === 'poll') polledFrom.set(symbol, Math.min(from, polledFrom.get(symbol) ?? from));
    }
    for (const [symbol, from] of polledFrom)
      db.run('update symbols set polled_from = ? where symbol = ?', from, symbol);
    setMeta(db, 'generation', String(manifest.generation));
    setMeta(db, rebuiltKey, String(manifest.generation));
    setMeta(db, manifestHashKey, sha256(disk.read(layout.manifest)));
  });
}

/** The rows of a dataset's files, damaged ones left out: what they said is asked for again, and a publish names them. */
function* intactRows(dataset: 'symbols' | 'coverage', manifest: Manifest, layout: Layout, disk: Disk) {
  for (const file of manifest.datasets[dataset].files) {
    const path = join(layout.root, file.path);
    if (disk.size(path) === null) continue;
    const bytes = disk.read(path);
    if (sha256(bytes) === file.sha256) yield* decodeRows(datasets[dataset], bytes);
  }
}
