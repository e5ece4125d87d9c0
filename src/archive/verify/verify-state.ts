import { type Extent, extents, faultOf } from '../../state/check.ts';
import { stateFile } from '../../state/state.ts';
import type { Archive } from '../archive.ts';
import { readPublished } from '../archive.ts';
import type { PublishedFile } from '../manifest.ts';
import { datasets } from '../parquet/datasets.ts';
import { decodeRows } from '../parquet/parquet.ts';

const told = datasets.coverage.filter(({ name }) => ['dataset', 'symbol', 't_from', 't_to'].includes(name));

/**
 * Whether the state is sound and knows the coverage that is published: SQLite looks at its file, and of every symbol what
 * both say is added up. Resolves to a sentence that says what is wrong and what to do; null where nothing is.
 * @param coverage the published files of coverage, all of them intact; null where they are not, so that nothing is compared
 * @throws DamageError where one of them is not so any more
 */
export async function stateFault(
  archive: Archive,
  coverage: readonly PublishedFile[] | null,
  signal?: AbortSignal,
): Promise<string | null> {
  const { state, layout } = archive;
  const path = stateFile(layout.private);
  const fault = faultOf(state.db);
  if (fault !== null) return `The state database ${path} is damaged: ${fault}. ${remedy(path)}`;
  if (coverage === null) return null;
  const published = new Map<string, Extent>();
  for (const file of coverage) {
    signal?.throwIfAborted();
    for (const row of decodeRows(told, readPublished(archive, file))) {
      const [dataset, symbol, from, to] = row as [string, string, number, number];
      if (dataset === 'ticks') add(published, symbol, from, to);
    }
    // Signals and the progress bar get their turn.
    await new Promise((resolve) => setImmediate(resolve));
  }
  const known = extents(state.db);
  for (const symbol of new Set([...published.keys(), ...known.keys()])) {
    if (agree(published.get(symbol), known.get(symbol))) continue;
    return `The state database ${path} does not know the coverage of ${symbol} as it is published. ${remedy(path)}`;
  }
  return null;
}

function add(extents: Map<string, Extent>, symbol: string, from: number, to: number): void {
  const was = extents.get(symbol);
  extents.set(symbol, {
    windows: (was?.windows ?? 0) + 1,
    ms: (was?.ms ?? 0) + to - from,
    from: Math.min(was?.from ?? from, from),
    to: Math.max(was?.to ?? to, to),
  });
}

/** Windows of a state may begin amid a millisecond, where those of a file cannot. */
function agree(a: Extent | undefined, b: Extent | undefined): boolean {
  if (a === undefined || b === undefined) return false;
  const slack = a.windows + b.windows;
  return Math.abs(a.ms - b.ms) <= slack && Math.abs(a.from - b.from) <= 1 && Math.abs(a.to - b.to) <= 1;
}

const remedy = (path: string): string =>
  `Publish what is journaled, if that can still be done (oddslake publish); then, while nothing runs on the archive, move ${path} away, and with it the files of that name that end in -wal and -shm: the next run makes a new one of what is published. What is journaled only, and which prices were contested, is gone with it.`;
