import { expect, test } from 'vitest';
import type { CoveredWindow } from '../../../src/archive/format/coverage.ts';
import { emptyRecheckHistory } from '../../../src/archive/journal/recheck-results.ts';
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

/** A day of one symbol, covered by one response, with some of its ticks in the archive. One tick every ten minutes. */
function dayOf(isStored: (t: number) => boolean, traits: Partial<Traits> = {}, isRefused = false) {
  const rows = Array.from({ length: 144 }, (_, i): Row => ({ t: day + i * 600_000 + 1, p: 0.5, seenFrom: 0 }));
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

test('a recheck stops after eight refused requests', async () => {
  const { context, withdrawn } = dayOf(() => true, {}, true);
  expect(await recheck(context, 50)).toMatchObject({ requests: 8, windows: 0, seen: 0, contradictions: [] });
  expect(withdrawn).toEqual([]);
});
