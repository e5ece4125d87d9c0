import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { type PriceLevel, toBookSide } from '../../src/archive/format/order-book.ts';
import { appendBooks, type BookRecord } from '../../src/archive/journal/journal-books.ts';
import { ensureSymbols } from '../../src/archive/journal/symbol-store.ts';
import { dayMs, hourMs, now, opened, publishNow, scratchFolder } from '../archive/scratch.ts';
import { serving } from './serving.ts';

const levels = (...pairs: readonly (readonly [number, number])[]): PriceLevel[] =>
  pairs.map(([price, quantity]) => ({ price, quantity }));

interface Reported {
  readonly t: number;
  readonly bids?: PriceLevel[];
  readonly asks?: PriceLevel[];
  /** Time of the observation; `t` by default. */
  readonly at?: number;
}

function append(archive: Archive, symbol: string, ...books: readonly Reported[]): void {
  const records = books.map(({ t, bids = [], asks = [], at = t }): BookRecord => {
    const snapshot = { t, bids: toBookSide(bids, 'highest'), asks: toBookSide(asks, 'lowest') };
    return { runId: 'run', symbol, observedAt: at, snapshots: [snapshot], rejected: [], understood: true };
  });
  appendBooks(archive.state, records);
}

async function served() {
  const root = scratchFolder();
  const writer = opened({ root });
  const { json } = await serving(opened({ root }));
  return { root, writer, json, get: async (symbol: string) => (await json(`/api/v1/orderbook?symbol=${symbol}`)).body };
}

const first = { t: now - 2 * dayMs, bids: levels([0.4, 10], [0.39, 5]), asks: levels([0.45, 7]) };
const second = { t: now - hourMs, bids: levels([0.5, 1]), asks: levels([0.55, 2], [0.6, 3]) };

test('returns the latest snapshot with best levels first, journaled or published', async () => {
  const { writer, get } = await served();
  append(writer, 'A', second, first);
  append(writer, 'B', first);
  const latest = { symbol: 'A', ...second, generated_at: now, data_time: second.t };
  expect(await get('A')).toEqual(latest);
  await publishNow(writer);
  expect(await get('A')).toEqual(latest);
  expect(await get('B')).toEqual({ symbol: 'B', ...first, generated_at: now, data_time: first.t });
});

test('a journaled snapshot replaces a published one of the same time, but no later one', async () => {
  const { writer, get } = await served();
  append(writer, 'A', second);
  await publishNow(writer);
  append(writer, 'A', first);
  expect(await get('A')).toMatchObject(second);
  const corrected = { t: second.t, asks: levels([0.7, 1]), at: second.t + 5 };
  append(writer, 'A', { t: second.t, bids: levels([0.1, 1]), at: second.t + 4 }, corrected);
  const answer = {
    symbol: 'A',
    t: second.t,
    bids: [],
    asks: corrected.asks,
    generated_at: now,
    data_time: corrected.at,
  };
  expect(await get('A')).toEqual(answer);
  await publishNow(writer);
  expect(await get('A')).toEqual(answer);
});

test('returns an empty order book with empty sides', async () => {
  const { writer, get } = await served();
  append(writer, 'A', first, { t: now });
  const empty = { symbol: 'A', t: now, bids: [], asks: [], generated_at: now, data_time: now };
  expect(await get('A')).toEqual(empty);
  await publishNow(writer);
  expect(await get('A')).toEqual(empty);
});

test('data_time is the time of the last poll, even if that is days after the snapshot', async () => {
  const { writer, get } = await served();
  append(writer, 'A', { ...first, at: first.t + 40 }, { ...first, at: now - 7 });
  expect(await get('A')).toMatchObject({ t: first.t, generated_at: now, data_time: now - 7 });
  await publishNow(writer);
  expect(await get('A')).toMatchObject({ t: first.t, generated_at: now, data_time: now - 7 });
  // A response without an order book does not confirm this one.
  appendBooks(writer.state, [
    { runId: 'run', symbol: 'A', observedAt: now, snapshots: [], rejected: [], understood: true },
  ]);
  expect(await get('A')).toMatchObject({ t: first.t, generated_at: now, data_time: now - 7 });
});

test('a symbol without an order book and an unknown symbol give 404 with different messages', async () => {
  const { writer, json } = await served();
  ensureSymbols(writer.state.db, ['A'], now);
  append(writer, 'B', first);
  const ask = async (symbol: string) => (await json(`/api/v1/orderbook?symbol=${symbol}`)).body;
  expect(await ask('A')).toMatchObject({ status: 404, detail: expect.stringContaining('no order book') });
  expect(await ask('X')).toMatchObject({ status: 404, detail: expect.stringContaining('does not know this symbol') });
  // The lookup is repeated after a change.
  await publishNow(writer);
  append(writer, 'A', second);
  await publishNow(writer);
  expect(await ask('A')).toMatchObject({ t: second.t });
});

test.each(['', 'symbol=', 'symbol=A&symbol=B', 'symbol=A&x=1'])('rejects the query %j', async (query) => {
  const { json } = await served();
  expect((await json(`/api/v1/orderbook?${query}`)).status).toBe(400);
});

test('does not serve an order book from a damaged file', async () => {
  const { root, writer, json } = await served();
  append(writer, 'A', first);
  const { files } = await publishNow(writer);
  rmSync(join(root, files.find((file) => file.path.startsWith('orderbooks/'))!.path));
  expect((await json('/api/v1/orderbook?symbol=A')).status).toBe(503);
});
