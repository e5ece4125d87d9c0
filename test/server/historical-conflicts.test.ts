import { expect, test } from 'vitest';
import { precedenceRanks } from '../../src/archive/format/precedence.ts';
import { answer, append, day0, dayMs, hourMs, now, publishedRows, publishNow } from '../archive/scratch.ts';
import { pagesOf } from './historical-archive.ts';
import { madeOnce } from './made-once.ts';
import { serving } from './serving.ts';

// Dropped prices over HTTP. Several may have one symbol and time.

const base = '/api/v1/historical/conflicts';
const symbols = ['AAA', "O'Neil; --", '🚀'];
const times = [0, 1, 2].map((day) => day0 + day * dayMs + hourMs);

const lake = madeOnce(async (archive) => {
  append(
    archive,
    ...symbols.map((symbol) =>
      answer(
        symbol,
        times.map((t) => [t, 0.5]),
      ),
    ),
  );
  // Two imports with other prices, the second one with two of each time.
  const rivals = [
    { prices: [0.1], observedAt: now - hourMs },
    { prices: [0.2, 0.3], observedAt: now },
  ];
  for (const { prices, observedAt } of rivals) {
    const pairs = times.flatMap((t) => prices.map((p): [number, number] => [t, p]));
    append(
      archive,
      ...symbols.map((symbol) =>
        answer(symbol, pairs, { windows: [], observedAt, origin: 'import', rank: precedenceRanks.import }),
      ),
    );
  }
  await publishNow(archive);
});

interface Conflict {
  readonly symbol: string;
  readonly t: number;
  readonly kept: number;
  readonly dropped: number;
  readonly seen_at: number;
  readonly seq: number;
}

test('returns every dropped price once, on pages of any size and as files', async () => {
  const archive = await lake();
  const rows = publishedRows(archive.layout.root, 'conflicts');
  expect(rows.length).toBeGreaterThanOrEqual(symbols.length * times.length * 2);
  const { json, ask } = await serving(archive);
  for (const query of ['?limit=1', '?limit=2', '?limit=1000', `?limit=1&symbol=${encodeURIComponent("O'Neil; --")}`]) {
    const found = (await pagesOf<Conflict>(json, `${base}${query}`, 'conflicts')).flat();
    const keys = found.map(({ symbol, t, seen_at, seq }) => JSON.stringify([symbol, t, seen_at, seq]));
    expect(new Set(keys).size).toBe(keys.length);
    expect(found.length).toBe(query.includes('symbol') ? rows.length / symbols.length : rows.length);
    expect(found.every(({ kept, dropped }) => kept === 0.5 && [0.1, 0.2, 0.3].includes(dropped))).toBe(true);
    // Sorted by symbol and time, and by when the other price was seen.
    const order = found.filter(({ symbol }) => symbol === "O'Neil; --").map(({ t, seen_at, seq }) => [t, seen_at, seq]);
    expect(order).toEqual([...order].sort((a, b) => a[0]! - b[0]! || a[1]! - b[1]! || a[2]! - b[2]!));
  }
  const csv = await (await ask(`${base}?format=csv&symbol=AAA&from=${times[1]}&to=${times[1]! + 1}`)).text();
  expect(csv.split('\n')[0]).toBe('symbol,t,kept,dropped,seen_at,seq');
  expect(csv.trim().split('\n').length - 1).toBe(rows.length / symbols.length / times.length);
});

test('refuses a cursor of another shape', async () => {
  const { json } = await serving(await lake());
  const { body } = await json<{ next_cursor: string }>(`${base}?limit=1`);
  const parts = JSON.parse(Buffer.from(body.next_cursor, 'base64url').toString()) as unknown[];
  for (const id of ["1 2' OR true", 'x', '1', '1 -1', '99999999999999 1']) {
    const forged = Buffer.from(JSON.stringify([...parts.slice(0, 4), id])).toString('base64url');
    expect((await json(`${base}?limit=1&cursor=${forged}`)).status).toBe(400);
  }
});
