import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { systemDisk } from '../../../src/archive/disk/file-system.ts';
import { decodeRows } from '../../../src/archive/parquet/rows.ts';
import { openTradesReader, storeTrades, type TradePosition } from '../../../src/backtest/data/stored-trades.ts';
import { openTradeSpill, type SortedTrades, withSortedTrades } from '../../../src/backtest/data/trade-files.ts';
import type { Trade } from '../../../src/contract/trade-fields.ts';
import { tradeColumns } from '../../../src/contract/trade-fields.ts';
import { day0, opened, scratchFolder } from '../../archive/scratch.ts';

const { signal } = new AbortController();

const trade = (filledAt: number, rule: number): Trade => ({
  symbol: 'KX A',
  rule,
  side: 'yes',
  contracts: 1,
  decided_at: filledAt - 1,
  filled_at: filledAt,
  price: 0.25,
  entry_price: 0.25,
  exit_price: 1,
  entry_fill: 'tick',
  exit_fill: null,
  exit_reason: 'settled',
  exit_decided_at: null,
  exited_at: day0 + 1000,
  entry_fees: 0,
  exit_fees: 0,
  pnl: 0.75,
});

/** Three trades of one tick, two of the next, and two more. */
const trades = [5, 5, 5, 6, 6, 7, 9].map((t, rule) => trade(day0 + t, rule));

async function withTrades<T>(work: (sorted: SortedTrades) => Promise<T>): Promise<T> {
  const folder = scratchFolder();
  const spill = openTradeSpill(join(folder, 'trades/batch-0'));
  spill.add(trades);
  spill.end();
  return await withSortedTrades(join(folder, 'trades'), join(folder, 'scratch'), signal, work);
}

test('a page begins behind the last trade of the previous one, also among trades of one tick', async () => {
  const archive = opened();
  const folder = join(archive.layout.root, '.oddslake/backtests');
  const file = join(folder, 'a.parquet');
  const stored = await withTrades((sorted) => storeTrades(systemDisk, { file, bytesMax: 1e6 }, 'draft', sorted));
  expect(stored).toMatchObject({ rows: 7, file: { bytes: expect.any(Number) } });
  const reader = openTradesReader(archive, folder, 'test');
  onTestFinished(() => reader.close());
  for (const limit of [1, 2, 3, 6, 7, 8]) {
    const pages: (readonly Trade[])[] = [];
    for (let after: TradePosition | null = null; ; ) {
      const page: Awaited<ReturnType<typeof reader.readPage>> = await reader.readPage(file, after, limit, signal);
      pages.push(page.trades);
      after = page.next;
      if (after === null) break;
    }
    expect(pages.flat()).toEqual(trades);
    expect(pages.map((page) => page.length)).toEqual(
      Array.from({ length: Math.ceil(7 / limit) }, (_, i) => Math.min(limit, 7 - i * limit)),
    );
  }
  const end = { filledAt: day0 + 9, skip: 1 };
  expect(await reader.readPage(file, end, 5, signal)).toEqual({ trades: [], next: null });
  const { chunks, close } = await reader.openTexts(file, 'csv', signal);
  const pieces: Uint8Array[] = [];
  for await (const chunk of chunks) pieces.push(chunk);
  await close();
  const expected = await withTrades(async (sorted) => {
    const whole: Uint8Array[] = [];
    for await (const chunk of sorted.encode('csv')) whole.push(chunk);
    return Buffer.concat(whole).toString('utf8');
  });
  expect(Buffer.concat(pieces).toString('utf8')).toBe(expected);
});

test('closing a file of which nothing was read does not wait, and closing the reader removes its scratch folder', async () => {
  const archive = opened();
  const folder = join(archive.layout.root, '.oddslake/backtests');
  const file = join(folder, 'a.parquet');
  await withTrades((sorted) => storeTrades(systemDisk, { file, bytesMax: 1e6 }, 'draft', sorted));
  const reader = openTradesReader(archive, folder, 'test');
  const { close } = await reader.openTexts(file, 'csv', signal);
  const closing = reader.close();
  await close();
  await close();
  await closing;
  expect(readdirSync(join(archive.layout.privateFolder, 'pins'))).toEqual([]);
});

test('a file that would be too large is not written, and an earlier one stays until it is replaced', async () => {
  const folder = join(scratchFolder(), 'backtests');
  const file = join(folder, 'a.parquet');
  await withTrades(async (sorted) => {
    const none = { rows: 7, file: null };
    expect(await storeTrades(systemDisk, { file, bytesMax: 0 }, 'draft', sorted)).toEqual(none);
    expect(readdirSync(folder)).toEqual([]);
    const { file: whole } = await storeTrades(systemDisk, { file, bytesMax: 1e6 }, 'draft', sorted);
    expect(await storeTrades(systemDisk, { file, bytesMax: whole!.bytes - 1 }, 'draft', sorted)).toEqual(none);
    expect(await storeTrades(systemDisk, { file, bytesMax: whole!.bytes }, 'draft', sorted)).toEqual({
      rows: 7,
      file: whole,
    });
    const read = decodeRows(tradeColumns, systemDisk.read(file));
    expect(read).toEqual(trades.map((one) => tradeColumns.map(({ name }) => one[name as keyof Trade])));
  });
  const failing: SortedTrades = {
    count: 1,
    // biome-ignore lint/correctness/useYield: fails before the first chunk
    async *encode() {
      throw new Error('the disk is gone');
    },
  };
  const other = join(folder, 'b.parquet');
  await expect(storeTrades(systemDisk, { file: other, bytesMax: 1e6 }, 'draft', failing)).rejects.toThrow(/is gone/);
  expect(existsSync(other)).toBe(false);
});
