import { readFileSync } from 'node:fs';
import { datasets } from '../../archive/format/datasets.ts';
import { decodeFlatRows } from '../../archive/parquet/column-reader.ts';
import { readFooter } from '../../archive/parquet/metadata.ts';
import { decodePublished } from '../../archive/read-published-file.ts';
import { intersectTwo, isEmpty, type Window } from '../../base/window.ts';
import type { UniverseMember } from './batches.ts';

/** Total lifetime of symbols in a window, and its uncovered part, in ms. */
export interface CoverageTotals {
  readonly lifetimeMs: number;
  readonly uncoveredMs: number;
}

/** Lifetime of a symbol within a window, epoch ms; not empty. */
export interface LifetimeWindow extends Window {
  readonly symbol: string;
}

export const clipLifetimes = (
  members: readonly Pick<UniverseMember, 'symbol' | 'lifetimeFrom' | 'lifetimeTo'>[],
  span: Window,
): LifetimeWindow[] =>
  members.flatMap(({ symbol, lifetimeFrom, lifetimeTo }) => {
    const lifetime = intersectTwo(span, { from: lifetimeFrom, to: lifetimeTo });
    return isEmpty(lifetime) ? [] : [{ symbol, ...lifetime }];
  });

/**
 * Computes the uncovered time of symbol lifetimes in one pass over the coverage dataset. Keeps two numbers per symbol
 * in memory.
 * @param paths the files, by day
 * @throws DamageError if a file cannot be decoded
 */
export async function computeCoverageTotals(
  paths: readonly string[],
  lifetimes: readonly LifetimeWindow[],
  signal: AbortSignal,
): Promise<CoverageTotals> {
  if (lifetimes.length === 0) return { lifetimeMs: 0, uncoveredMs: 0 };
  const totals = createCoverageSum(lifetimes);
  for (const path of paths) {
    signal.throwIfAborted();
    const file = readFileSync(path);
    decodePublished(path, () => addCoverageFile(file, lifetimes, totals.add));
    // The signal is aborted by a timer.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return totals.finish();
}

/** Adds a covered window of a symbol. Within a symbol, windows are sorted by start. */
type AddCovered = (symbol: string, from: number, to: number) => void;

function createCoverageSum(lifetimes: readonly LifetimeWindow[]): { add: AddCovered; finish(): CoverageTotals } {
  const lifetimeMs = sum(lifetimes.map(({ from, to }) => to - from));
  const symbolIndexes = new Map(lifetimes.map(({ symbol }, i) => [symbol, i]));
  /** End of the counted time per symbol, because windows may overlap. */
  const countedTo = Float64Array.from(lifetimes, ({ from }) => from);
  const starts = new Float64Array(lifetimes.length);
  let covered = 0;
  return {
    add(symbol, from, windowTo) {
      const symbolIndex = symbolIndexes.get(symbol);
      if (symbolIndex === undefined) return;
      if (from < starts[symbolIndex]!) throw new Error(`the coverage of ${symbol} is out of order`);
      starts[symbolIndex] = from;
      const to = Math.min(windowTo, lifetimes[symbolIndex]!.to);
      covered += Math.max(0, to - Math.max(from, countedTo[symbolIndex]!));
      countedTo[symbolIndex] = Math.max(to, countedTo[symbolIndex]!);
    },
    finish: () => ({ lifetimeMs, uncoveredMs: lifetimeMs - covered }),
  };
}

const coverageNames = ['dataset', 'symbol', 't_from', 't_to'];
const coverageColumns = datasets.coverage.columns.filter(({ name }) => coverageNames.includes(name));

/** @throws Error if the file is not stored as our writers store coverage */
function addCoverageFile(file: Uint8Array, lifetimes: readonly LifetimeWindow[], add: AddCovered): void {
  const span = spanWindows(lifetimes);
  for (const group of readFooter(file).row_groups.keys()) {
    for (const row of decodeFlatRows(coverageColumns, file, [group])) {
      const [dataset, symbol, from, to] = row as [dataset: string, symbol: string, from: number, to: number];
      if (dataset === 'ticks' && to > span.from && from < span.to) add(symbol, from, to);
    }
  }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, n) => total + n, 0);

const spanWindows = (windows: readonly Window[]): Window => ({
  from: windows.reduce((min, { from }) => Math.min(min, from), Number.POSITIVE_INFINITY),
  to: windows.reduce((max, { to }) => Math.max(max, to), 0),
});
