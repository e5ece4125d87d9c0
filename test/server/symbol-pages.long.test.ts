import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { PublishedFile } from '../../src/archive/format/manifest.ts';
import { readSymbol } from '../../src/archive/journal/symbol-store.ts';
import { DamageError } from '../../src/base/errors.ts';
import { compareUtf8 } from '../../src/base/symbol-name.ts';
import type { Window } from '../../src/base/window.ts';
import {
  createCandlesEndpoint,
  createCoverageEndpoint,
  createRowsEndpoints,
} from '../../src/server/history/endpoints.ts';
import type { HistoricalService } from '../../src/server/history/historical-service.ts';
import type { PinFile } from '../../src/server/history/history.ts';
import { appendQuotes, quote } from '../archive/quote-records.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hourMs,
  now,
  opened,
  type Pairs,
  publishNow,
  scratchFolder,
} from '../archive/scratch.ts';
import { share } from '../harness/share.ts';
import { openCounted, type Page } from './counted-history.ts';

// Pages of named symbols are read without DuckDB. They are compared with what was appended.

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`symbol-pages: SEED=${seed}`);

const symbols = ['A', 'AA', 'a b?', "O'N; --", 'é', 'e\u0301', 'ﬀ', '🚀', '\u{10ffff}', 'quiet'];
const steps = {
  '1m': hourMs / 60,
  '5m': hourMs / 12,
  '15m': hourMs / 4,
  '30m': hourMs / 2,
  '1h': hourMs,
  '4h': 4 * hourMs,
  '6h': 6 * hourMs,
  '12h': 12 * hourMs,
  '1d': dayMs,
  '1w': 7 * dayMs,
};

const signal = new AbortController().signal;

/** Moments at and next to the bounds of days, hours and minutes. */
const moment = fc
  .tuple(
    fc.integer({ min: 0, max: 9 }),
    fc.constantFrom(0, 1, 60_000, 5 * 60_000, hourMs - 1, hourMs, 4 * hourMs, 12 * hourMs, dayMs - 1),
    fc.constantFrom(0, 0, 1, 59_999),
  )
  .map(([day, within, more]) => day0 + day * dayMs + Math.min(dayMs - 1, within + more));

const prices = [0, -0, 0.5, 1, 1e-300, 0.1 + 0.2, 123456.789, -3];

/** The price of a symbol at a time: the same in every response, so that there are no conflicts. */
const priceOf = (symbol: string, t: number): number => prices[((symbol.length + t / 997) % prices.length) | 0]!;

const response = fc.record({
  symbol: fc.constantFrom(...symbols.slice(0, -1)),
  times: fc.uniqueArray(moment, { maxLength: 30 }),
  windows: fc.uniqueArray(moment, { maxLength: 6 }),
});

const quotesArbitrary = fc.uniqueArray(
  fc
    .tuple(fc.constantFrom(...symbols), moment)
    .map(([symbol, t]) => quote(symbol, t, t % 3 === 0 ? null : 0.1 + 0.2, t % 5 === 0 ? null : 1, 7.5)),
  { maxLength: 150, selector: ({ symbol, t }) => `${symbol} ${t}` },
);

const archiveParts = fc.record({
  parts: fc.constantFrom(1, 2, 4),
  groupRows: fc.constantFrom(5, 64, 100_000),
  quotes: fc.array(quotesArbitrary, { maxLength: 2 }),
  publishes: fc.array(fc.array(response, { minLength: 1, maxLength: 12 }), { minLength: 1, maxLength: 3 }),
  candles: fc.constantFrom<('1h' | '1d')[]>([], ['1h'], ['1d'], ['1h', '1d']),
});
type ArchiveParts = typeof archiveParts extends fc.Arbitrary<infer T> ? T : never;

const query = fc.record(
  {
    symbols: fc.uniqueArray(fc.constantFrom(...symbols), { minLength: 1, maxLength: 4 }),
    from: moment,
    to: moment,
    limit: fc.integer({ min: 1, max: 40 }),
    interval: fc.constantFrom(...(Object.keys(steps) as (keyof typeof steps)[])),
  },
  { requiredKeys: ['symbols', 'limit', 'interval'] },
);

/** The covered windows of a response: each second moment ends one. */
const toWindows = (windows: readonly number[]): Window[] => {
  const sorted = windows.toSorted((a, b) => a - b);
  return sorted.flatMap((from, k) => (k % 2 === 0 && k + 1 < sorted.length ? [{ from, to: sorted[k + 1]! }] : []));
};

async function createArchive({ parts, groupRows, publishes, quotes, candles }: ArchiveParts) {
  const archive = opened({ root: scratchFolder(), parts, groupRows });
  // Known, but without ticks.
  append(archive, answer('quiet', [], { windows: [{ from: day0, to: day0 + hourMs }] }));
  for (const [i, responses] of publishes.entries()) {
    appendQuotes(archive, quotes[i] ?? []);
    append(
      archive,
      ...responses.map(({ symbol, times, windows }) =>
        answer(
          symbol,
          times.toSorted((a, b) => a - b).map((t) => [t, priceOf(symbol, t)]),
          { windows: toWindows(windows) },
        ),
      ),
    );
    await publishNow(archive, now + i, 'run', { candles });
  }
  return archive;
}

/** What was appended of a symbol. */
function listAppended({ publishes, quotes }: ArchiveParts, symbol: string) {
  const responses = publishes.flat().filter((one) => one.symbol === symbol);
  const times = [...new Set(responses.flatMap(({ times }) => times))].sort((a, b) => a - b);
  const quoted = quotes.slice(0, publishes.length).flat();
  return {
    // -0 is stored as 0.
    ticks: times.map((t) => ({ symbol, t, p: priceOf(symbol, t) || 0 })),
    // The same quote of two publishes is one row.
    quotes: [
      ...new Map(
        quoted
          .filter((one) => one.symbol === symbol)
          .map((one) => [one.t, { ...one, event_at: null, received_at: null }]),
      ).values(),
    ].sort((a, b) => a.t - b.t),
    windows: [
      ...(symbol === 'quiet' ? [{ from: day0, to: day0 + hourMs }] : []),
      ...responses.flatMap(({ windows }) => toWindows(windows)),
    ],
  };
}

/** The length of the union of windows within an interval, ms. */
function measureCovered(windows: readonly Window[], from: number, to: number): number {
  let [ms, end] = [0, from];
  for (const window of windows.toSorted((a, b) => a.from - b.from)) {
    const until = Math.min(to, window.to);
    ms += Math.max(0, until - Math.max(end, window.from));
    end = Math.max(end, until);
  }
  return ms;
}

/** Candles of the ticks. Those of weeks begin on Mondays. */
function computeCandles({ ticks, windows }: ReturnType<typeof listAppended>, stepMs: number) {
  const origin = 4 * dayMs;
  return [...Map.groupBy(ticks, ({ t }) => Math.floor((t - origin) / stepMs) * stepMs + origin)].map(([t, within]) => ({
    symbol: within[0]!.symbol,
    t,
    open: within[0]!.p,
    high: within.reduce((max, { p }) => (p > max ? p : max), within[0]!.p),
    low: within.reduce((min, { p }) => (p < min ? p : min), within[0]!.p),
    close: within.at(-1)!.p,
    ticks: within.length,
    covered: measureCovered(windows, t, t + stepMs) / stepMs,
  }));
}

type Rows = readonly { readonly symbol: string; readonly t: number }[];

/** Reads all pages of a query; each but the last has as many rows as requested. */
async function readAllPages(limit: number, name: string, read: (cursor: string | undefined) => Promise<object>) {
  const rows: Record<string, unknown>[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = (await read(cursor)) as Page & Record<string, Record<string, unknown>[]>;
    rows.push(...page[name]!);
    if (page.next_cursor === null) return rows;
    expect(page[name]).toHaveLength(limit);
    cursor = page.next_cursor;
  }
}

test('pages of named symbols have the rows that were appended, and need no query', async () => {
  let rowsRead = 0;
  await fc.assert(
    fc.asyncProperty(archiveParts, fc.array(query, { minLength: 4, maxLength: 8 }), async (made, requested) => {
      const archive = await createArchive(made);
      const { service, countQueries } = await openCounted(archive, 1 << 24);
      for (const { interval, from, to, symbols, limit } of requested) {
        // An unknown symbol gives 404.
        const known = symbols.filter((symbol) => readSymbol(archive.state.db, symbol) !== undefined).sort(compareUtf8);
        if (known.length === 0 || (from !== undefined && to !== undefined && from >= to)) continue;
        const request = { symbol: known, limit, ...(from !== undefined && { from }), ...(to !== undefined && { to }) };
        const inWindow = <T extends Rows>(rows: T) =>
          rows.filter(({ t }) => t >= (from ?? 0) && t < (to ?? Number.POSITIVE_INFINITY));
        const appended = known.map((symbol) => listAppended(made, symbol));
        const ticks = await readAllPages(limit, 'ticks', (cursor) =>
          createRowsEndpoints(service).ticks.readPage({ ...request, ...(cursor && { cursor }) }, signal),
        );
        expect(ticks).toEqual(appended.flatMap((one) => inWindow(one.ticks)));
        const quotes = await readAllPages(limit, 'quotes', (cursor) =>
          createRowsEndpoints(service).quotes.readPage({ ...request, ...(cursor && { cursor }) }, signal),
        );
        expect(quotes).toEqual(appended.flatMap((one) => inWindow(one.quotes)));
        const candles = await readAllPages(limit, 'candles', (cursor) =>
          createCandlesEndpoint(service).readPage({ ...request, interval, ...(cursor && { cursor }) }, signal),
        );
        const expected = appended.flatMap((one) => inWindow(computeCandles(one, steps[interval])));
        // Published candles have more columns.
        const names = ['symbol', 't', 'open', 'high', 'low', 'close', 'ticks', 'covered'];
        expect(candles.map((row) => Object.fromEntries(names.map((name) => [name, row[name]])))).toEqual(expected);
        const readCoverage = (given: { symbol: string[]; limit: number; from?: number; to?: number }) =>
          readAllPages(limit, 'coverage', (cursor) =>
            createCoverageEndpoint(service).readPage({ ...given, ...(cursor && { cursor }) }, signal),
          ) as Promise<unknown> as Promise<{ symbol: string; t_from: number; t_to: number }[]>;
        const covered = await readCoverage({ symbol: known, limit });
        for (const [i, symbol] of known.entries()) {
          const windows = covered
            .filter((row) => row.symbol === symbol)
            .map((row) => ({ from: row.t_from, to: row.t_to }));
          expect(windows.every(({ from }, k) => k === 0 || from >= windows[k - 1]!.to)).toBe(true);
          for (let day = day0; day < day0 + 10 * dayMs; day += dayMs)
            expect(measureCovered(windows, day, day + dayMs)).toBe(
              measureCovered(appended[i]!.windows, day, day + dayMs),
            );
        }
        expect(await readCoverage(request)).toEqual(
          covered.filter((row) => row.t_to > (from ?? 0) && row.t_from < (to ?? Number.POSITIVE_INFINITY)),
        );
        rowsRead += ticks.length + quotes.length + candles.length;
      }
      expect(countQueries()).toBe(0);
    }),
    // Shrinking would take minutes.
    { seed, numRuns: Math.ceil(share * 15), endOnFailure: true },
  );
  expect(rowsRead).toBeGreaterThan(0);
});

test('a symbol is read without a cache, too, and a fault of the reader is an error', async () => {
  const archive = opened({ parts: 1 });
  append(archive, answer('A', inDay0));
  await publishNow(archive);
  const { service, countQueries } = await openCounted(archive, 0);
  expect(await createRowsEndpoints(service).ticks.readPage({ symbol: 'A' }, signal)).toMatchObject({ count: 2 });
  const garbled = withPins(service, async () => async () => new Uint8Array(100));
  await expect(createRowsEndpoints(garbled).ticks.readPage({ symbol: 'A' }, signal)).rejects.toThrow(
    /cannot be decoded/,
  );
  expect(countQueries()).toBe(0);
});

const inDay0: Pairs = [
  [day0, 0.5],
  [day0 + hourMs, 0.25],
];

/** A service that calls `pinFile` for every file that a page reads. */
function withPins(service: HistoricalService, pinFile: (pin: PinFile, file: PublishedFile) => ReturnType<PinFile>) {
  const read: HistoricalService['history']['read'] = (work) =>
    service.history.read((generation) =>
      work({
        ...generation,
        readFiles: (readPins, given) => generation.readFiles((pin) => readPins((file) => pinFile(pin, file)), given),
      }),
    );
  return { ...service, history: { ...service.history, read } };
}

test('a page is read again from the new generation if a publish replaces one of its files', async () => {
  const root = scratchFolder();
  const archive = opened({ root });
  append(archive, answer('A', inDay0), answer('A', [[day0 + dayMs, 0.75]]));
  await publishNow(archive);
  const { service, countQueries } = await openCounted(archive, 1 << 24);
  const writer = opened({ root });
  let pins = 0;
  const replacing = withPins(service, async (pin, file) => {
    if (pins++ === 1) {
      append(writer, answer('A', [[day0 + 1, 1]]), answer('A', [[day0 + dayMs + 1, 1]]));
      await publishNow(writer, now + 1);
    }
    return await pin(file);
  });
  expect(await createRowsEndpoints(replacing).ticks.readPage({ symbol: 'A' }, signal)).toMatchObject({
    ticks: [day0, day0 + 1, day0 + hourMs, day0 + dayMs, day0 + dayMs + 1].map((t) => ({ symbol: 'A', t })),
    generation: writer.readManifest().generation,
  });
  // One pin of the first day, one of the second that fails, and both of the new generation.
  expect([pins, countQueries()]).toEqual([4, 0]);
});

test('a file that is modified while a page is read gives an error', async () => {
  const archive = opened();
  append(archive, answer('A', inDay0));
  await publishNow(archive);
  const { service } = await openCounted(archive, 1 << 24);
  const page = { symbol: 'A' };
  expect(await createRowsEndpoints(service).ticks.readPage(page, signal)).toMatchObject({ count: 2 });
  const modifying = withPins(service, async (pin, file) => {
    const readBytes = await pin(file);
    const path = join(archive.layout.root, file.path);
    writeFileSync(path, readFileSync(path).fill(0, 20, 30));
    return readBytes;
  });
  await expect(createRowsEndpoints(modifying).ticks.readPage(page, signal)).rejects.toThrow(
    /modified while it was read/,
  );
  await expect(createRowsEndpoints(service).ticks.readPage(page, signal)).rejects.toThrow(DamageError);
});

/** The turns of the event loop until `work` ends. */
async function countTurns(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await work();
  isOver = true;
  return turns;
}

test('a page of many small files that nobody has read takes few turns of the event loop', async () => {
  const days = Array.from({ length: 40 }, (_, day) => day0 + day * dayMs);
  const archive = opened();
  append(archive, ...days.map((day) => answer('A', [[day, 0.5]])));
  await publishNow(archive, days.at(-1)! + dayMs);
  const createTicksEndpoint = (service: HistoricalService) => createRowsEndpoints(service).ticks;
  for (const createEndpoint of [createTicksEndpoint, createCoverageEndpoint, createCandlesEndpoint]) {
    const { service, countQueries } = await openCounted(archive, 1 << 24);
    const page = { symbol: 'A', interval: '4h' as const };
    const turns = await countTurns(() => createEndpoint(service).readPage(page, signal));
    expect(turns).toBeGreaterThan(1);
    // Ticks and coverage for candles, both pinned and indexed.
    expect(turns).toBeLessThan(days.length);
    expect(countQueries()).toBe(0);
  }
});
