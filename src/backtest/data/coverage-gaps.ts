import { readFileSync } from 'node:fs';
import { datasets } from '../../archive/format/datasets.ts';
import { readFooter } from '../../archive/parquet/metadata.ts';
import { decodeFlatRows } from '../../archive/parquet/row-reader.ts';
import type { Query } from '../../archive/query/query.ts';
import { toSqlTimestamp } from '../../archive/query/slice-query.ts';
import { quoteLiteral } from '../../archive/query/views.ts';
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
 * @param openQuery opens a single-threaded query over coverage, for files that our reader cannot read. Rows then arrive in file
 *   order (within a symbol, sorted by start), too
 */
export async function computeCoverageTotals(
  paths: readonly string[],
  openQuery: () => Promise<Query>,
  lifetimes: readonly LifetimeWindow[],
  signal: AbortSignal,
): Promise<CoverageTotals> {
  if (lifetimes.length === 0) return { lifetimeMs: 0, uncoveredMs: 0 };
  try {
    const totals = createCoverageSum(lifetimes);
    for (const path of paths) {
      signal.throwIfAborted();
      addCoverageFile(readFileSync(path), lifetimes, totals.add);
      // The signal is aborted by a timer.
      await new Promise((resolve) => setImmediate(resolve));
    }
    return totals.finish();
  } catch {
    signal.throwIfAborted();
    return await queryCoverageTotals(await openQuery(), lifetimes, signal);
  }
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

/** Maximum number of symbols in a query; with more, all rows are read. */
const symbolsInQueryMax = 1000;

async function queryCoverageTotals(
  query: Query,
  lifetimes: readonly LifetimeWindow[],
  signal: AbortSignal,
): Promise<CoverageTotals> {
  const span = spanWindows(lifetimes);
  const totals = createCoverageSum(lifetimes);
  // With many names DuckDB uses a join, which does not preserve row order.
  const named = `AND symbol IN (${lifetimes.map(({ symbol }) => quoteLiteral(symbol)).join(', ')}) ORDER BY t_from`;
  const sql = `SELECT symbol, epoch_ms(t_from)::DOUBLE, epoch_ms(t_to)::DOUBLE FROM coverage
    WHERE dataset = 'ticks' AND t_to > ${toSqlTimestamp(span.from)} AND t_from < ${toSqlTimestamp(span.to)} ${lifetimes.length > symbolsInQueryMax ? '' : named}`;
  for await (const [names, froms, tos] of query.readChunks([sql], signal)) {
    for (let row = 0; row < names!.length; row++)
      totals.add(names![row] as string, froms![row] as number, tos![row] as number);
  }
  return totals.finish();
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, n) => total + n, 0);

const spanWindows = (windows: readonly Window[]): Window => ({
  from: windows.reduce((min, { from }) => Math.min(min, from), Number.POSITIVE_INFINITY),
  to: windows.reduce((max, { to }) => Math.max(max, to), 0),
});
