import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { decodeRows } from '../../../src/archive/parquet/rows.ts';
import {
  openTradeSpill,
  type SortedTrades,
  type TradesFormat,
  withSortedTrades,
} from '../../../src/backtest/data/trade-files.ts';
import { runSeries, tradesMax } from '../../../src/backtest/engine/run-series.ts';
import { compareUtf8 } from '../../../src/base/symbol-name.ts';
import type { Trade } from '../../../src/contract/trade-fields.ts';
import { tradeColumns } from '../../../src/contract/trade-fields.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { strategyOf } from './strategies.ts';
import { createArchive, day0, dayMs, run, seriesOf, symbols } from './test-archive.ts';

const signal = new AbortController().signal;

async function read(trades: SortedTrades, format: TradesFormat): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of trades.encode(format)) pieces.push(piece);
  return Buffer.concat(pieces);
}

const toRow = (trade: Trade) => tradeColumns.map(({ name }) => trade[name as keyof Trade]);

const sorted = (trades: readonly Trade[]): Trade[] =>
  trades.toSorted((a, b) => a.filled_at - b.filled_at || compareUtf8(a.symbol, b.symbol) || a.rule - b.rule);

/** Two rules that enter and leave at every tick, some of them at thin books. */
const busy = strategyOf({
  rules: (['yes', 'no'] as const).map((side) => ({
    side,
    entry: { all: [] },
    exit: { all: [] },
    size: { contracts: 20 },
  })),
  fees: { schedule: 'kalshi' },
});

test('saves every trade of a run, in the order of the listed ones, with any number of threads', async () => {
  const archive = await createArchive();
  const span = { from: day0, to: day0 + 3 * dayMs };
  const expected: Trade[] = [];
  const plan = { strategies: [busy], spans: [span], isDetailed: true };
  runSeries(
    plan,
    seriesOf(),
    () => {},
    (trades) => expected.push(...trades),
  );
  const rows = sorted(expected).map(toRow);
  expect(rows.length).toBeGreaterThan(2 * tradesMax);
  const files: Buffer[] = [];
  for (const threads of [1, 2]) {
    const saveTrades = async (trades: SortedTrades): Promise<void> => {
      expect(trades.count).toBe(rows.length);
      files.push(await read(trades, 'parquet'));
    };
    const result = await run(archive, span, busy, { threads, saveTrades });
    expect(result.trades.count).toBe(rows.length);
    expect(result.trades.items.map(toRow)).toEqual(rows.slice(0, tradesMax));
  }
  expect(decodeRows(tradeColumns, files[0]!)).toEqual(rows);
  expect(files[1]!.equals(files[0]!)).toBe(true);
  // A position that is sold in parts has the same key several times.
  const keys = expected.map(({ filled_at, symbol, rule }) => `${filled_at} ${symbol} ${rule}`);
  expect(new Set(keys).size).toBeLessThan(keys.length);
  expect(readdirSync(join(archive.layout.privateFolder, 'pins'))).toEqual([]);
});

test('saves the trades of the best point of a grid on the held-out window', async () => {
  const archive = await createArchive();
  const threshold = strategyOf({
    parameters: { below: 0.5 },
    rules: [
      {
        side: 'yes',
        entry: { measure: 'price', below: { parameter: 'below' } },
        exit: { all: [] },
        size: { contracts: 1 },
      },
    ],
  });
  let saved: unknown[] = [];
  const result = await run(archive, { grid: { below: [0.2, 0.4] }, symbols: symbols.slice(0, 2) }, threshold, {
    saveTrades: async (trades) => {
      saved = decodeRows(tradeColumns, await read(trades, 'parquet'));
    },
  });
  expect(saved).toEqual(result.trades.items.map(toRow));
  expect(saved.length).toBe(result.grid!.points[result.grid!.best!]!.held_out_trades);
});

const trade = (symbol: string, filledAt: number, rest: Partial<Trade> = {}): Trade => ({
  symbol,
  rule: 0,
  side: 'yes',
  contracts: 1.5,
  decided_at: filledAt - 1,
  filled_at: filledAt,
  price: 0.1 + 0.2,
  entry_price: 0.25,
  exit_price: 1,
  entry_fill: 'tick',
  exit_fill: null,
  exit_reason: 'settled',
  exit_decided_at: null,
  exited_at: day0 + dayMs,
  entry_fees: 0.02,
  exit_fees: 0,
  pnl: 1.105,
  ...rest,
});

/** Spills lists of trades, each of one symbol, two rows a file. */
function spilled(...lists: readonly (readonly Trade[])[]): string {
  const folder = join(scratchFolder(), 'trades');
  for (const [i, trades] of lists.entries()) {
    const spill = openTradeSpill(join(folder, `batch-${i}`), 2);
    spill.add(trades);
    spill.end();
  }
  return folder;
}

const readFrom = (folder: string, format: TradesFormat): Promise<string> =>
  withSortedTrades(folder, join(folder, '../scratch'), signal, async (trades) =>
    (await read(trades, format)).toString('utf8'),
  );

test('writes CSV with times in ISO-8601 and every digit of a number', async () => {
  const folder = spilled(
    [
      trade('=B', day0 + 5),
      trade('=B', day0 + 7, { exit_reason: 'sold', exit_fill: 'book', exit_decided_at: day0 + 8 }),
    ],
    [trade('a,b', day0 + 5), trade('a,b', day0 + 6), trade('a,b', day0 + 6, { contracts: 2 })],
  );
  const text = await readFrom(folder, 'csv');
  const [header, ...lines] = text.trimEnd().split('\n');
  expect(header).toBe(tradeColumns.map(({ name }) => name).join(','));
  expect(lines.map((line) => line.split(',0,yes,')[0])).toEqual(['=B', '"a,b"', '"a,b"', '"a,b"', '=B']);
  expect(lines[0]).toBe(
    '=B,0,yes,1.5,2026-06-01T00:00:00.004Z,2026-06-01T00:00:00.005Z,0.30000000000000004,0.25,1,tick,,settled,,2026-06-02T00:00:00.000Z,0.02,0,1.105',
  );
  // Parts of one position keep their order.
  expect(lines.slice(2, 4).map((line) => line.split(',')[4])).toEqual(['1.5', '2']);
  expect((await readFrom(folder, 'csv_safe')).split('\n')[1]).toMatch(/^'=B,0,/);
});

test('writes an empty file for a run without trades', async () => {
  const folder = spilled([]);
  expect(existsSync(folder)).toBe(false);
  expect(await readFrom(folder, 'csv')).toBe(`${tradeColumns.map(({ name }) => name).join(',')}\n`);
  await withSortedTrades(folder, join(folder, '../scratch'), signal, async (trades) => {
    expect(trades.count).toBe(0);
    expect(decodeRows(tradeColumns, await read(trades, 'parquet'))).toEqual([]);
  });
});
