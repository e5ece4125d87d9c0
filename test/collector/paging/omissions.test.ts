import { expect, test } from 'vitest';
import type { TickRecord } from '../../../src/archive/journal/journal.ts';
import type { TickPage } from '../../../src/client/upstream.ts';
import { collectTicks, type TickCollectContext } from '../../../src/collector/paging/collect-ticks.ts';
import { computeCut } from '../../../src/collector/paging/prove-coverage.ts';
import { createServerBehavior } from '../../../src/collector/paging/server-behavior.ts';
import { Night, noSilences } from '../../../src/collector/proof/shown.ts';

const minute = 60_000;
const start = Date.UTC(2026, 6, 1);
const now = start + 72 * 60 * minute;
const settleMs = 24 * 60 * minute;

interface Response extends Partial<TickPage> {
  /** Minutes since the start. */
  readonly at: readonly number[];
}

/** Collects one symbol, of which the archive knows ticks at these minutes. Returns what was left out, and the evidence of claims. */
async function collect(
  known: readonly number[],
  respond: (symbol: string, widthMs: number) => Response,
  symbols = ['S'],
  isCaught = false,
) {
  const records: TickRecord[] = [];
  const left: string[] = [];
  const night = new Night();
  const context: TickCollectContext = {
    upstream: {
      async ticks({ symbol, from = 0, to = now }) {
        const { at, ...fields } = respond(symbol, to - from);
        const t = Float64Array.from(at, (n) => start + n * minute).filter((time) => from <= time && time <= to);
        const none = { rejected: [], gaps: [], from: null, to: null, generatedAt: now };
        return { t, p: t.map(() => 0.5), received: t.length, ...none, ...fields };
      },
    },
    clock: { nowMs: () => now, monotonicMs: () => now, sleep: async () => {} },
    runId: 'run',
    origin: 'poll',
    behavior: { ...createServerBehavior(), omitsTicks: isCaught },
    pageLimit: 5000,
    futureSkewMs: minute,
    signal: new AbortController().signal,
    append: async (record) => void records.push(record),
    onPage: () => {},
    concurrency: 1,
    drain: async () => {},
    getCoverage: () => [],
    getUnjudged: () => [],
    onSymbol: () => {},
    night,
    settleMs,
    pieces: false,
    knownSilences: noSilences,
    getSymbol: () => ({
      ...{ first: null, last: null, count: 0, observedAt: null },
      ...{ firstSeen: 0, opensAt: null, provenTo: 0 },
    }),
    findTick: async () => null,
    loadKnownTimes: async (symbol, { from, to }, observedAt) =>
      Float64Array.from(symbol === 'S' ? known : [], (n) => start + n * minute).filter(
        (t) => from <= t && t < Math.min(to, computeCut(observedAt, settleMs)),
      ),
    onOmission: async ({ symbol, t }) => void left.push(`${symbol} ${(t - start) / minute}`),
  };
  await collectTicks(
    context,
    symbols.map((symbol) => ({ symbol, windows: [{ from: start, to: now }], isFirst: false })),
  );
  const evidence = new Set(records.flatMap(({ covered }) => covered.map((claim) => claim.evidence)));
  return { left, isProven: evidence.has('confirmed'), night, records };
}

test('a response that shows all known ticks proves what is between its ticks', async () => {
  expect(await collect([10, 20, 30], () => ({ at: [10, 20, 25, 30] }))).toMatchObject({ left: [], isProven: true });
});

test('a response that leaves out a known tick proves nothing, and neither does what follows in the run', async () => {
  const all = await collect([10, 20, 30], (name) => ({ at: name === 'S' ? [10, 25, 30] : [1, 2, 3] }), ['S', 'T']);
  expect(all).toMatchObject({ left: ['S 20'], isProven: false });
  expect(all.records.some(({ symbol, covered }) => symbol === 'T' && covered.length > 0)).toBe(true);
  expect(all.night.isSick()).toBe(true);
});

test('a known tick before the first tick of a response, or after its last one, is not left out', async () => {
  expect(await collect([5, 40], () => ({ at: [10, 20, 30] }))).toMatchObject({ left: [], isProven: true });
});

test('a known tick after the cut may come back', async () => {
  const day = 24 * 60;
  const response = () => ({ at: [10, 3 * day - 30] });
  expect((await collect([2 * day + 20], response)).left).toEqual([]);
  expect((await collect([2 * day - 20], response)).left).toEqual([`S ${2 * day - 20}`]);
});

test('a row that cannot be used may be a known tick', async () => {
  const response = (rejected: number) => () => ({
    at: [10, 30],
    rejected: Array.from({ length: rejected }, () => ({ reason: 'p is not finite', raw: '{}' })),
  });
  expect((await collect([15, 20], response(2))).left).toEqual([]);
  expect((await collect([15, 20], response(1))).left).toEqual(['S 15']);
});

test('a gap that the response states is no omission', async () => {
  const gaps = [{ from: start + 18 * minute, to: start + 22 * minute }];
  expect((await collect([20], () => ({ at: [10, 30], gaps }))).left).toEqual([]);
});

test('a millisecond of which a page cap left rows out is shown', async () => {
  expect((await collect([10, 20, 30], () => ({ at: [10, 20, 20, 30] }))).left).toEqual([]);
});

test('a server that was caught is asked again for halves; one that leaves out ticks of an hour proves nothing', async () => {
  const all = [10, 20, 25, 30, 40];
  const isThin = (longMs: number) => (_: string, widthMs: number) => ({ at: widthMs > longMs ? [10, 25, 40] : all });
  const narrow = await collect(all, isThin(600 * minute), ['S'], true);
  expect(narrow).toMatchObject({ left: [], isProven: true });
  expect(narrow.night.omission).toBeNull();
  const shown = narrow.records.flatMap(({ ticks }) => [...ticks.t].map((t) => (t - start) / minute));
  expect(new Set(shown)).toEqual(new Set(all));
  expect(await collect(all, isThin(600 * minute))).toMatchObject({ left: ['S 20'], isProven: false });
  const lost = await collect([20, 20.1, 20.2, 20.3], () => ({ at: [10, 20, 20.1, 20.3, 20.4, 30] }), ['S'], true);
  expect(lost.left).toEqual(['S 20.2']);
});
