import { expect, test } from 'vitest';
import type { CoveredWindow } from '../../../src/archive/format/coverage.ts';
import { cleanWindowsMin, emptyRecheckHistory } from '../../../src/archive/journal/recheck-results.ts';
import { createRandom } from '../../../src/base/random.ts';
import { dayMs, isWithin, type Window } from '../../../src/base/window.ts';
import { type FetchContext, requestWindow } from '../../../src/collector/paging/fetch-symbol.ts';
import { createServerBehavior } from '../../../src/collector/paging/server-behavior.ts';
import { Night } from '../../../src/collector/proof/shown.ts';
import { type RecheckNightContext, recheck, recheckNight } from '../../../src/collector/rechecks/recheck.ts';
import { createSeededRandom } from '../paging/adversary/random.ts';
import { createAdversary, honest, type Row, type Traits } from '../paging/adversary/server.ts';

const hourMs = 3_600_000;
const day = Date.UTC(2026, 6, 1);
const end = day + dayMs;

const step = 600_000;

/**
 * A day of one symbol, covered by one response, with some of its ticks in the archive. One tick every ten minutes.
 * @param coarse which ticks a coarse grid has
 */
function dayOf(
  isStored: (t: number) => boolean,
  traits: Partial<Traits> = {},
  isRefused = false,
  coarse: (i: number) => boolean = () => false,
) {
  const rows = Array.from(
    { length: 144 },
    (_, i): Row => ({ t: day + i * step + (coarse(i) ? 0 : 1), p: 0.5, seenFrom: 0 }),
  );
  const times = new Set(rows.map(({ t }) => t).filter(isStored));
  const hand = { nowMs: end + 5 * hourMs };
  const service = createAdversary(
    new Map([['A', rows]]),
    { ...honest, cap: 1000, ...traits },
    hand,
    createSeededRandom(1),
  );
  const withdrawn: Window[] = [];
  const refetched: Window[] = [];
  const demotedWindows: CoveredWindow[] = [];
  const cover: FetchContext = {
    upstream: service,
    runId: 'run',
    origin: 'backfill',
    behavior: createServerBehavior(),
    pageLimit: 5000,
    clock: { nowMs: () => hand.nowMs, monotonicMs: () => hand.nowMs, sleep: async () => {} },
    futureSkewMs: 60_000,
    signal: new AbortController().signal,
    onPage: () => {},
    night: new Night(),
    append: async ({ ticks }) => {
      for (const t of ticks.t) times.add(t);
    },
  };
  const context: RecheckNightContext = {
    symbols: [{ symbol: 'A', ticks: times.size }],
    endMs: end,
    random: createRandom(1),
    nowMs: () => hand.nowMs,
    countRequests: () => service.requests,
    getCoverage: () => [{ from: day, to: end, fetchedAt: end + hourMs, origin: 'poll', evidence: 'confirmed' }],
    loadTickTimes: async (_, window) => Float64Array.from([...times].filter((t) => isWithin(t, window))).sort(),
    requestPage: async (symbol, window) => (isRefused ? null : requestWindow(cover, symbol, window)),
    withdraw: async (_, windows) => void withdrawn.push(...windows),
    refetch: async (plans) => void refetched.push(...plans.flatMap(({ windows }) => windows)),
    demote: async (_, windows) => void demotedWindows.push(...windows),
  };
  return { context, service, withdrawn, refetched, demotedWindows };
}

test('a recheck without new ticks sends one request per window and withdraws nothing', async () => {
  const { context, service, withdrawn, refetched } = dayOf(() => true);
  const { requests, windows, found, contradictions } = await recheck(context, 10);
  expect({ requests, windows, found, contradictions }).toEqual({
    requests: 10,
    windows: 10,
    found: 0,
    contradictions: [],
  });
  expect(service.requests).toBe(10);
  expect([...withdrawn, ...refetched]).toEqual([]);
});

test('new ticks withdraw coverage, fetch it again and enlarge the sample', async () => {
  const { context, withdrawn, refetched } = dayOf((t) => t < end - 2 * hourMs);
  const { windows, contradictions } = await recheck(context, 6);
  expect(contradictions.length).toBeGreaterThan(0);
  expect(contradictions[0]).toMatchObject({ symbol: 'A', isLeftOut: false, isProven: false });
  expect(contradictions[0]!.latenessMs).toBeGreaterThan(hourMs);
  expect(contradictions[0]!.latenessMs).toBeLessThanOrEqual(3 * hourMs);
  expect(windows).toBeGreaterThan(6);
  expect(withdrawn).toContainEqual({ from: day, to: end });
  expect(refetched).toEqual(withdrawn);
});

test('a wide response without a tick that a narrow one contained proves an omission', async () => {
  const isStored = (t: number): boolean => t % 2 === 0 || t % 3 === 0;
  const { contradictions } = await recheck(dayOf(isStored, { sample: 40 }).context, 20);
  expect(contradictions.at(-1)).toMatchObject({ isLeftOut: true, isProven: true, latenessMs: null });
});

test('one tick that a wide response lacks proves an omission, although it has a later new one', async () => {
  const isStored = (t: number): boolean => t < day + 70 * step || t >= day + 72 * step;
  const { context } = dayOf(isStored, { coarseMs: dayMs + hourMs }, false, (i) => i !== 70);
  expect((await recheck(context, 40)).contradictions).toMatchObject([{ isLeftOut: true, isProven: true }]);
});

test('a wide response that ends before the new ticks proves no omission', async () => {
  const { contradictions } = await recheck(dayOf((t) => t < end - 2 * hourMs, { cap: 100 }).context, 20);
  expect(contradictions.length).toBeGreaterThan(0);
  for (const { isLeftOut, isProven } of contradictions) expect([isLeftOut, isProven]).toEqual([false, false]);
});

test('a server is trusted again after enough clean windows, and not before all doubtful ones are fetched again', async () => {
  const caught = { ...emptyRecheckHistory, caughtAt: end + 2 * hourMs, cleanWindows: cleanWindowsMin - 4 };
  const check = async (windows: number, rereadRequestsMax: number) => {
    const limits = { windows, rereadRequestsMax, computeOverlapMs: () => hourMs };
    const { doubtful, memory } = await recheckNight(dayOf(() => true).context, caught, limits, false);
    return { doubtful, caughtAt: memory.caughtAt };
  };
  expect(await check(4, 0)).toEqual({ doubtful: 1, caughtAt: caught.caughtAt });
  expect(await check(3, 32)).toEqual({ doubtful: 0, caughtAt: caught.caughtAt });
  expect(await check(4, 32)).toEqual({ doubtful: 0, caughtAt: null });
});

test('after a proof of omissions, all coverage is inferred and fetched again', async () => {
  const isStored = (t: number): boolean => t % 2 === 0 || t % 3 === 0;
  const { context, demotedWindows, refetched } = dayOf(isStored, { sample: 40 });
  const limits = { windows: 20, rereadRequestsMax: 32, computeOverlapMs: () => hourMs };
  const { memory, at, withdrawn, reread, doubtful } = await recheckNight(context, emptyRecheckHistory, limits, false);
  expect(memory.caughtAt).toBeGreaterThanOrEqual(at);
  expect(demotedWindows).toMatchObject([{ from: day, to: end }]);
  expect([withdrawn, reread, doubtful]).toEqual([2, 1, 0]);
  expect(refetched).toMatchObject([
    { from: day, to: end },
    { from: day, to: end },
  ]);
});

test('after a proof of omissions, coverage of a service whose clock is ahead is inferred too', async () => {
  const isStored = (t: number): boolean => t % 2 === 0 || t % 3 === 0;
  const { context, demotedWindows } = dayOf(isStored, { sample: 40 });
  const ahead: CoveredWindow = {
    from: day,
    to: end,
    fetchedAt: context.nowMs() + hourMs,
    origin: 'poll',
    evidence: 'confirmed',
  };
  const both: RecheckNightContext = {
    ...context,
    symbols: [...context.symbols, { symbol: 'B', ticks: 0 }],
    getCoverage: (symbol) => (symbol === 'B' ? [ahead] : context.getCoverage(symbol)),
  };
  const limits = { windows: 20, rereadRequestsMax: 0, computeOverlapMs: () => hourMs };
  const { memory, doubtful } = await recheckNight(both, emptyRecheckHistory, limits, false);
  expect([memory.caughtAt, doubtful]).toEqual([ahead.fetchedAt + 1, 2]);
  expect(demotedWindows).toContainEqual(ahead);
});

test('a recheck stops after eight refused requests', async () => {
  const { context, withdrawn } = dayOf(() => true, {}, true);
  expect(await recheck(context, 50)).toMatchObject({ requests: 8, windows: 0, seen: 0, contradictions: [] });
  expect(withdrawn).toEqual([]);
});
