import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isProven } from '../../../src/archive/format/coverage.ts';
import type { TickRecord } from '../../../src/archive/journal/journal.ts';
import { dayMs, isWithin, subtract, union, type Window } from '../../../src/base/window.ts';
import type { TickPage, Upstream } from '../../../src/client/upstream.ts';
import { createPageReplayer, decodeRawTickResponse, replayBook } from '../../../src/collector/import/replay-pages.ts';
import type { RawPage, TickRequestPurpose } from '../../../src/contract/raw-page.ts';
import {
  type HonestService,
  honestService,
  type PagingTraits,
  plainTraits,
  type Row,
} from '../paging/honest-service.ts';
import { type Run, run, toKey } from '../paging/run.ts';

type Covered = TickRecord['covered'][number];

const start = Date.UTC(2026, 6, 1);
const window: Window = { from: start, to: start + 3_600_000 };
const later = window.to + 3_600_000;
const skewMs = 60_000;
const rules = { futureSkewMs: skewMs, settleMs: 0, countKnown: () => 0 };

const bodyOf = (symbol: string, page: TickPage): Buffer =>
  Buffer.from(
    JSON.stringify({
      symbol,
      ticks: [
        ...Array.from(page.t, (t, i) => ({ t, p: page.p[i] })),
        ...page.rejected.map(({ raw }) => JSON.parse(raw) as object),
      ],
      count: page.received,
      ...(page.from === null ? {} : { from: page.from }),
      ...(page.to === null ? {} : { to: page.to }),
      ...(page.generatedAt === null ? {} : { generated_at: page.generatedAt }),
      gaps: page.gaps.map(({ from, to }) => [from, to]),
    }),
  );

/** A service whose responses are all recorded. */
function recordResponses(
  service: HonestService,
  hand: { nowMs: number },
): { upstream: Pick<Upstream, 'ticks'>; pages: RawPage[] } {
  const pages: RawPage[] = [];
  return {
    pages,
    upstream: {
      async ticks(query) {
        const page = await service.ticks(query);
        const { symbol, from, to, limit, meaning: purpose = null, askedAt = hand.nowMs } = query;
        pages.push({
          run: 'run',
          asked: { route: 'ticks', symbol, from, to, limit, meaning: purpose },
          askedAt,
          receivedAt: hand.nowMs,
          servedAt: null,
          status: 200,
          redacted: false,
          body: bodyOf(symbol, page),
        });
        return page;
      },
    },
  };
}

/** Replays all responses of a run: ticks and coverage by symbol. */
function readAll(pages: readonly RawPage[]) {
  const raws = pages.map((page) => decodeRawTickResponse(page)!);
  const replayer = createPageReplayer(rules);
  const kept = new Map<string, Set<string>>();
  const covered = new Map<string, Covered[]>();
  const records = raws.map((raw) => replayer.replay(raw));
  for (const record of [...records, ...replayer.finish()]) {
    const { symbol, ticks } = record;
    const symbolKeys = kept.get(symbol) ?? new Set();
    ticks.t.forEach((t: number, i: number) => void symbolKeys.add(toKey({ t, p: ticks.p[i]! })));
    kept.set(symbol, symbolKeys);
    covered.set(symbol, [...(covered.get(symbol) ?? []), ...record.covered]);
  }
  return { kept, covered };
}

async function runAndReplay(truth: ReadonlyMap<string, readonly Row[]>, ways: PagingTraits, pageLimit = 5000) {
  const hand = { nowMs: later };
  const { upstream, pages } = recordResponses(honestService(truth, ways, hand), hand);
  const plans = new Map([...truth.keys()].map((symbol) => [symbol, [window]]));
  const live: Run = await run({ upstream, hand, truth, plans, pageLimit });
  return { live, again: readAll(pages), pages };
}

describe('replayed responses', () => {
  const row = fc
    .integer({ min: 0, max: 3599 })
    .map((s): Row => ({ t: start + s * 1000, p: (s % 97) / 128, seenFrom: 0, usable: s % 11 !== 5 }));
  const rows = fc
    .uniqueArray(row, { selector: ({ t }) => t, maxLength: 60 })
    .map((list) => list.sort((a, b) => a.t - b.t));
  const scenario = fc.record({
    truth: fc
      .array(rows, { minLength: 1, maxLength: 4 })
      .map((lists) => new Map(lists.map((list, i) => [`S${i}`, list]))),
    ways: fc
      .record({
        cap: fc.integer({ min: 8, max: 80 }),
        side: fc.constantFrom('earliest' as const, 'latest' as const),
        fromInclusive: fc.boolean(),
        toInclusive: fc.boolean(),
        echo: fc.constantFrom('requested' as const, 'tightened' as const, 'none' as const),
        behindMs: fc.constantFrom(0, 5000, null),
        keptFrom: fc.constantFrom(null, null, start + 1_000_500),
      })
      // Expired history must be stated.
      .map(
        (some): PagingTraits => ({ ...plainTraits, ...some, echo: some.keptFrom === null ? some.echo : 'requested' }),
      ),
  });

  test('return the same ticks as the run, without a wrong claim', async () => {
    await fc.assert(
      fc.asyncProperty(scenario, async ({ truth, ways }) => {
        const { live, again: replayed } = await runAndReplay(truth, ways);
        for (const symbol of truth.keys()) {
          expect(replayed.kept.get(symbol)).toEqual(live.keptOf(symbol));
          const covered = replayed.covered.get(symbol) ?? [];
          expect(subtract(covered, [window])).toEqual([]);
          for (const row of truth.get(symbol)!)
            if (row.usable && covered.some((w) => isWithin(row.t, w)))
              expect(replayed.kept.get(symbol)).toContain(toKey(row));
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe('a raw response', () => {
  const purpose: TickRequestPurpose = { origin: 'backfill', asked: window, kind: 'whole' };
  const raw = (fields: object, rest: Partial<RawPage> = {}, means: TickRequestPurpose | null = purpose): RawPage => ({
    run: 'run',
    askedAt: later,
    receivedAt: later + 500,
    servedAt: null,
    status: 200,
    redacted: false,
    asked: { route: 'ticks', symbol: 'S', from: start - 1, to: window.to, limit: 5000, meaning: means },
    body: Buffer.from(JSON.stringify({ symbol: 'S', ticks: [], ...fields })),
    ...rest,
  });
  const reread = (page: RawPage) => {
    const replayer = createPageReplayer(rules);
    const record = replayer.replay(decodeRawTickResponse(page)!);
    return { ...record, covered: replayer.finish().flatMap(({ covered }) => covered) };
  };

  test('of another route, or not for ticks, is skipped', () => {
    const markets = { route: 'markets', view: null, source: null, limit: null } as const;
    expect(decodeRawTickResponse(raw({}, { asked: markets }))).toBeUndefined();
    expect(decodeRawTickResponse(raw({}, { asked: { route: 'orderbook', symbol: 'S' } }))).toBeUndefined();
    expect(decodeRawTickResponse(raw({}, {}, null))).toBeUndefined();
    expect(() => decodeRawTickResponse(raw({ symbol: 'X' }))).toThrow('another symbol');
  });

  test('becomes the same record as in the collector', () => {
    const ticks = [
      { t: start, p: 0.5 },
      { t: start + 1, p: 'x' },
      { t: window.to, p: 0.25 },
    ];
    const record = reread(raw({ ticks, count: 3, generated_at: later - 1000 }));
    expect(record).toMatchObject({
      symbol: 'S',
      requestedWindow: window,
      origin: 'backfill',
      rank: 1,
      observedAt: later - 1000,
    });
    expect([...record.ticks.t, ...record.ticks.p]).toEqual([start, 0.5]);
    expect(record.rejected).toEqual([{ reason: 'p is not a number', raw: JSON.stringify(ticks[1]) }]);
  });

  test.each<[string, object, Partial<RawPage>, number]>([
    ['its generated_at, up to the allowed skew ahead', { generated_at: later + 60_500 }, {}, later + 60_500],
    ['its request if generated_at is implausible', { generated_at: later + 60_501 }, {}, later],
    ['its request if there is no generated_at', {}, {}, later],
    ['its Date header if our clock was ahead', {}, { servedAt: later - 60_001 }, later - 60_001],
  ])('is dated by %s', (_, fields, rest, observedAt) => {
    const wide: TickRequestPurpose = { ...purpose, asked: { from: start, to: later + 3_600_000 } };
    const record = reread(raw(fields, rest, wide));
    expect(record.observedAt).toBe(observedAt);
    expect(record.covered).toEqual([{ from: start, to: observedAt, fetchedAt: observedAt, evidence: 'inferred' }]);
  });

  test('without a usable tick covers nothing', () => {
    expect(reread(raw({ ticks: [{ t: start / 1000, p: 0.5 }] })).covered).toEqual([]);
    expect(reread(raw({})).covered).toMatchObject([window]);
  });

  /** Ticks each `stepMs` from `from` seconds after the start on. */
  const page = (
    symbol: string,
    from: number,
    count: number,
    asked: Window,
    kind: TickRequestPurpose['kind'],
    stepMs = 1000,
  ) => {
    const ticks = Array.from({ length: count }, (_, i) => ({ t: start + from * 1000 + i * stepMs, p: 0.5 }));
    const meaning: TickRequestPurpose = { origin: 'poll', asked, kind };
    const sent = { route: 'ticks', symbol, from: asked.from - 1, to: asked.to, limit: 5000, meaning } as const;
    const times = { askedAt: later + 10 * dayMs, receivedAt: later + 10 * dayMs };
    return decodeRawTickResponse(raw({ symbol, ticks }, { ...times, asked: sent }))!;
  };
  /** What is proven of the symbol S. */
  const provenBy = (...raws: readonly ReturnType<typeof page>[]): Window[] => {
    const replayer = createPageReplayer(rules);
    for (const one of raws) replayer.replay(one);
    const own = replayer.finish().filter(({ symbol }) => symbol === 'S');
    return union(own.flatMap(({ covered }) => covered).filter(isProven));
  };

  test('is confirmed between its ticks, and beyond them as far as other responses of the run show that the service reaches', () => {
    const first = page('S', 5, 20, window, 'whole');
    const low = page('S', 5, 11, { from: start, to: start + 15_001 }, 'low');
    const high = page('S', 14, 11, { from: start + 14_000, to: window.to }, 'high');
    const between = { from: start + 5001, to: start + 24_000 };
    expect(provenBy(first)).toEqual([between]);
    // Nobody else shows how far the service reaches: the outermost ticks are not cut within their millisecond, no more.
    expect(provenBy(first, low, high)).toEqual([{ from: start + 5000, to: start + 24_001 }]);
    // Another symbol has more ticks, before and after, in more hours and days, with as long a silence between two.
    const far = { from: start - 10 * dayMs, to: later + 10 * dayMs };
    const other = (count: number) => page('W', -90_000, count, far, 'whole', 3_700_000);
    // After the last tick only up to a midnight: a server may round the end of the request down.
    expect(provenBy(first, low, high, other(100))).toEqual([{ from: start, to: start + 24_001 }]);
    // Without the second requests, the page may have been cut at any tick.
    expect(provenBy(first, other(100))).toEqual([between]);
    // Each symbol's last rows may be all that the service keeps.
    expect(provenBy(first, low, high, other(39))).toEqual([{ from: start + 5000, to: start + 24_001 }]);
  });

  test('does not confirm another one of the same generated_at', () => {
    const generatedAt = later + 10 * dayMs;
    const date = (ages: readonly number[]) =>
      [
        page('S', 5, 20, window, 'whole'),
        page('S', 5, 11, { from: start, to: start + 15_001 }, 'low'),
        page('S', 14, 11, { from: start + 14_000, to: window.to }, 'high'),
      ].map((one, i) => ({ ...one, page: { ...one.page, generatedAt: generatedAt - ages[i]! } }));
    expect(provenBy(...date([2, 1, 0]))).toEqual([{ from: start + 5000, to: start + 24_001 }]);
    expect(provenBy(...date([0, 0, 0]))).toEqual([{ from: start + 5001, to: start + 24_000 }]);
  });

  test('that contradicts the one before confirms nothing', () => {
    const first = page('S', 5, 20, window, 'whole');
    const low = page('S', 5, 11, { from: start, to: start + 15_001 }, 'low');
    const other = page('S', 15, 9, { from: start + 14_000, to: window.to }, 'high');
    const lacking = { ...other, page: { ...other.page, t: other.page.t.filter((_, i) => i !== 4) } };
    expect(provenBy(first, low, lacking)).toEqual([{ from: start + 5001, to: start + 15_000 }]);
  });

  test('of the order-book route is decoded as in the collector', () => {
    const book = { bids: [[0.4, 1]], asks: [] };
    const kept = (fields: object) => raw({}, { body: Buffer.from(JSON.stringify({ ...book, ...fields })) });
    expect(replayBook(kept({ generated_at: later + 60_500 }), 'S', skewMs)).toMatchObject({
      symbol: 'S',
      observedAt: later + 60_500,
      snapshots: [{ t: later + 60_500 }],
      rejected: [],
      understood: true,
    });
    expect(replayBook(kept({ generated_at: later + 60_501 }), 'S', skewMs).observedAt).toBe(later);
    expect(() => replayBook(kept({ symbol: 'X' }), 'S', skewMs)).toThrow('another symbol');
  });
});
