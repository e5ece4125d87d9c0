import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { findWrongCandles } from './candle-files.ts';
import { appendQuotes, quote, quoteAnswer } from './quotes.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hourMs,
  opened,
  type Pairs,
  publishedRows,
  publishNow,
  rowHashes,
  scratchFolder,
} from './scratch.ts';
import { trade, tradeAnswer } from './trades.ts';
import { readOwn } from './views-folder.ts';

// Volume, trades and vwap of candles, whichever of their datasets a publish changes.

const ticks: Pairs = [
  [day0 + 5, 0.5],
  [day0 + 3 * hourMs, 0.6],
  [day0 + dayMs, 0.8],
];
const trades = [
  trade(day0, 'a', 0.5, 2),
  trade(day0, 'b', 0.25, 2),
  trade(day0 + hourMs - 1, 'c', 0.75, 4),
  // An hour without ticks: its trades count for the day.
  trade(day0 + hourMs, 'd', 0.1, 8),
  trade(day0 + 4 * hourMs - 1, 'e', 0.5, 1, { block: true }),
];

type Step = 'ticks' | 'trades' | 'quotes' | 'publish';

async function fill(root: string, steps: readonly Step[]): Promise<Archive> {
  const archive = opened({ root });
  for (const step of steps) {
    if (step === 'ticks') append(archive, answer('AAA', ticks));
    else if (step === 'trades') appendQuotes(archive, tradeAnswer('AAA', trades));
    else if (step === 'quotes') appendQuotes(archive, quoteAnswer('AAA', [quote(day0 + 1, 0.1, 0.2)]));
    else await publishNow(archive);
  }
  return archive;
}

/** The candles of a dataset as `[t, volume, trades, vwap]`. */
const volumesOf = (root: string, dataset: 'candles_1h' | 'candles_1d') =>
  publishedRows(root, dataset).map((row) => [row[1], ...row.slice(10)]);

const hours = [
  [day0, 8, 3, 0.5625],
  [day0 + 3 * hourMs, 1, 1, 0.5],
  [day0 + dayMs, null, null, null],
];
const days = [
  [day0, 17, 5, (4.5 + 0.8 + 0.5) / 17],
  [day0 + dayMs, null, null, null],
];

describe('volume, trades and vwap of candles', () => {
  test.each<[string, Step[]]>([
    ['ticks and then trades', ['ticks', 'publish', 'trades', 'publish']],
    ['trades and then ticks', ['trades', 'publish', 'ticks', 'publish']],
    ['both at once', ['trades', 'ticks', 'publish']],
    ['quotes, trades and ticks in turn', ['quotes', 'publish', 'trades', 'publish', 'ticks', 'publish']],
    ['ticks, then quotes and trades together', ['ticks', 'publish', 'trades', 'quotes', 'publish']],
  ])('are those of the trades in the interval, from %s', async (_, steps) => {
    const root = scratchFolder();
    const archive = await fill(root, steps);
    expect(volumesOf(root, 'candles_1h')).toEqual(hours);
    expect(volumesOf(root, 'candles_1d').map((row) => row.slice(0, 3))).toEqual(days.map((row) => row.slice(0, 3)));
    expect(volumesOf(root, 'candles_1d')[0]![3]).toBeCloseTo(days[0]![3]!, 12);
    expect(findWrongCandles(archive)).toEqual([]);
    expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
    if (steps.includes('quotes')) return;
    const atOnce = scratchFolder();
    await fill(atOnce, ['ticks', 'trades', 'publish']);
    expect(rowHashes(root, 'candles_1{h,d}/**/*.parquet')).toEqual(rowHashes(atOnce, 'candles_1{h,d}/**/*.parquet'));
  });

  test('are the same in the macro candles()', async () => {
    const archive = await fill(scratchFolder(), ['ticks', 'trades', 'quotes', 'publish']);
    const sql = `SELECT epoch_ms(t)::DOUBLE AS t, volume, trades, vwap FROM candles('1h') ORDER BY t`;
    const rows = await readOwn(archive, sql);
    expect(rows.map((row) => [row.t, row.volume, row.trades, row.vwap])).toEqual(hours);
  });
});
