import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { PublishedFile } from '../../src/archive/format/manifest.ts';
import { readSymbol } from '../../src/archive/journal/symbols.ts';
import { DamageError } from '../../src/base/errors.ts';
import {
  createCandlesEndpoint,
  createCoverageEndpoint,
  createQuotesEndpoint,
  createTicksEndpoint,
} from '../../src/server/history/endpoints.ts';
import type { HistoricalService } from '../../src/server/history/historical-service.ts';
import type { PinFile } from '../../src/server/history/history.ts';
import { turnedBack } from '../archive/older.ts';
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
import { openCounted, type Page, type ReadPage, requireEqualPages } from './counted-history.ts';

// Pages of named symbols are read without DuckDB. They must be those of the DuckDB plan, which also serves all symbols.

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`symbol-pages: SEED=${seed}`);

const symbols = ['A', 'AA', 'a b?', "O'N; --", 'é', 'e\u0301', 'ﬀ', '🚀', '\u{10ffff}', 'quiet'];
const intervals = ['1m', '5m', '15m', '30m', '1h', '4h', '6h', '12h', '1d', '1w'] as const;

const signal = new AbortController().signal;

/** Moments at and next to the bounds of days, hours and minutes. */
const moment = fc
  .tuple(
    fc.integer({ min: 0, max: 9 }),
    fc.constantFrom(0, 1, 60_000, 5 * 60_000, hourMs - 1, hourMs, 4 * hourMs, 12 * hourMs, dayMs - 1),
    fc.constantFrom(0, 0, 1, 59_999),
  )
  .map(([day, within, more]) => day0 + day * dayMs + Math.min(dayMs - 1, within + more));

const tick = fc.tuple(moment, fc.constantFrom(0, -0, 0.5, 1, 1e-300, 0.1 + 0.2, 123456.789, -3));

const response = fc.record({
  symbol: fc.constantFrom(...symbols.slice(0, -1)),
  ticks: fc.uniqueArray(tick, { maxLength: 30, selector: ([t]) => t }),
  windows: fc.uniqueArray(moment, { maxLength: 6 }),
});

const anyPrice = fc.option(fc.constantFrom(0, 0.5, 1, 1e-300, 0.1 + 0.2), { freq: 3 });

const quotesArbitrary = fc.uniqueArray(
  fc
    .tuple(fc.constantFrom(...symbols), moment, anyPrice, anyPrice, fc.option(fc.constantFrom(0, 7.5)))
    .map(([symbol, t, bid, ask, size]) => quote(symbol, t, bid, ask, size ?? undefined)),
  { maxLength: 150, selector: ({ symbol, t }) => `${symbol} ${t}` },
);

const archiveParts = fc.record({
  parts: fc.constantFrom(1, 2, 4),
  groupRows: fc.constantFrom(5, 64, 100_000),
  quotes: fc.array(quotesArbitrary, { maxLength: 2 }),
  publishes: fc.array(fc.array(response, { minLength: 1, maxLength: 12 }), { minLength: 1, maxLength: 3 }),
  candles: fc.constantFrom<('1h' | '1d')[]>([], ['1h'], ['1d'], ['1h', '1d']),
});

const query = fc.record(
  {
    symbols: fc.uniqueArray(fc.constantFrom(...symbols), { minLength: 1, maxLength: 4 }),
    from: fc.nat(),
    to: fc.nat(),
    limit: fc.integer({ min: 1, max: 40 }),
    interval: fc.constantFrom(...intervals),
  },
  { requiredKeys: ['symbols', 'limit', 'interval'] },
);

async function createArchive({
  parts,
  groupRows,
  publishes,
  quotes,
  candles,
}: typeof archiveParts extends fc.Arbitrary<infer T> ? T : never) {
  const archive = opened({ root: scratchFolder(), parts, groupRows });
  // Known, but without ticks.
  append(archive, answer('quiet', [], { windows: [{ from: day0, to: day0 + hourMs }] }));
  for (const [i, responses] of publishes.entries()) {
    appendQuotes(archive, quotes[i] ?? []);
    append(
      archive,
      ...responses.map(({ symbol, ticks, windows }) => {
        const sorted = windows.toSorted((a, b) => a - b);
        const pairs = sorted.flatMap((from, k) =>
          k % 2 === 0 && k + 1 < sorted.length ? [{ from, to: sorted[k + 1]! }] : [],
        );
        return answer(
          symbol,
          ticks.toSorted(([a], [b]) => a - b),
          { windows: pairs },
        );
      }),
    );
    await publishNow(archive, now + i, 'run', { candles });
  }
  return archive;
}

/** The times of ticks and the bounds of windows, and the moments before and after: the ends of windows that are requested. */
const listMoments = (
  responses: readonly { ticks: readonly (readonly [number, number])[]; windows: number[] }[],
): number[] =>
  [day0, ...responses.flatMap(({ ticks, windows }) => [...ticks.map(([t]) => t), ...windows])].flatMap((t) => [
    t - 1,
    t,
    t + 1,
  ]);

test('pages of named symbols equal those of the DuckDB plan', async () => {
  let [pages, queries] = [0, 0];
  await fc.assert(
    fc.asyncProperty(archiveParts, fc.array(query, { minLength: 4, maxLength: 8 }), async (made, asked) => {
      const archive = await createArchive(made);
      const fast = await openCounted(archive, 1 << 24);
      const plain = await openCounted(archive, 0);
      for (const { interval, from, to, symbols, ...limited } of asked) {
        const moments = listMoments(made.publishes.flat().filter(({ symbol }) => symbols.includes(symbol)));
        const rest = {
          ...limited,
          // An unknown symbol gives 404.
          symbol: symbols.filter((symbol) => readSymbol(archive.state.db, symbol) !== undefined),
          ...(from !== undefined && { from: moments[from % moments.length]! }),
          ...(to !== undefined && { to: moments[to % moments.length]! }),
        };
        if (rest.symbol.length === 0) continue;
        if (rest.from !== undefined && rest.to !== undefined && rest.from >= rest.to) continue;
        for (const read of [
          (service, cursor) => createTicksEndpoint(service).readPage({ ...rest, ...(cursor && { cursor }) }, signal),
          (service, cursor) =>
            createCandlesEndpoint(service).readPage({ interval, ...rest, ...(cursor && { cursor }) }, signal),
          (service, cursor) => createCoverageEndpoint(service).readPage({ ...rest, ...(cursor && { cursor }) }, signal),
          (service, cursor) => createQuotesEndpoint(service).readPage({ ...rest, ...(cursor && { cursor }) }, signal),
        ] as ((service: HistoricalService, cursor: string | undefined) => Promise<object>)[])
          pages += await requireEqualPages(fast.service, plain.service, read as ReadPage);
      }
      expect(fast.countQueries()).toBe(0);
      queries += plain.countQueries();
    }),
    // Shrinking would take minutes.
    { seed, numRuns: Math.ceil(share * 15), endOnFailure: true },
  );
  expect(queries).toBeGreaterThan(0);
  expect(pages).toBeGreaterThan(0);
});

const inDay0: Pairs = [
  [day0, 0.5],
  [day0 + hourMs, 0.25],
];

test('pages of ticks of an older format equal those of the DuckDB plan', async () => {
  const first = opened();
  append(first, answer('A', inDay0), answer('A', [[day0 + dayMs, 0.75]]));
  await publishNow(first);
  first.close();
  const { root } = first.layout;
  turnedBack(root);
  const archive = opened({ root, create: false });
  const fast = await openCounted(archive, 1 << 24);
  const plain = await openCounted(archive, 0);
  await requireEqualPages(
    fast.service,
    plain.service,
    async (service) => (await createTicksEndpoint(service).readPage({ symbol: 'A' }, signal)) as Page,
  );
  expect(fast.countQueries()).toBe(0);
});

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
  expect(await createTicksEndpoint(replacing).readPage({ symbol: 'A' }, signal)).toMatchObject({
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
  expect(await createTicksEndpoint(service).readPage(page, signal)).toMatchObject({ count: 2 });
  const modifying = withPins(service, async (pin, file) => {
    const readBytes = await pin(file);
    const path = join(archive.layout.root, file.path);
    writeFileSync(path, readFileSync(path).fill(0, 20, 30));
    return readBytes;
  });
  await expect(createTicksEndpoint(modifying).readPage(page, signal)).rejects.toThrow(/modified while it was read/);
  await expect(createTicksEndpoint(service).readPage(page, signal)).rejects.toThrow(DamageError);
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
