/** Drives the generator that decides what to request and what to claim. */
import { describe, expect, test } from 'vitest';
import type { CoveredWindow } from '../../../src/archive/format/coverage.ts';
import { intersect, subtract, type Window } from '../../../src/base/window.ts';
import type { TickPage } from '../../../src/client/upstream.ts';
import {
  crowdedReason,
  defaultFetchOptions,
  type FetchOptions,
  type FetchStep,
} from '../../../src/collector/paging/fetch-steps.ts';
import { fetchWindow } from '../../../src/collector/paging/fetch-window.ts';
import { type Observation, observePage } from '../../../src/collector/paging/observation.ts';
import { createServerBehavior, toRequestedWindow } from '../../../src/collector/paging/server-behavior.ts';
import { every, later, minute, selectTicks, start, window } from './served.ts';

type ScriptedResponse = Partial<TickPage> & { readonly times?: readonly number[] };
type Request = Extract<FetchStep, { kind: 'request' }>;

/** All steps of a fetch. Responses are generated one second apart unless stated otherwise. */
function drive(
  respond: (request: Request, nth: number) => ScriptedResponse | null,
  options: Partial<FetchOptions> = {},
) {
  const behavior = createServerBehavior();
  const fetch = fetchWindow(behavior, window, { ...defaultFetchOptions, ...options });
  const steps: FetchStep[] = [];
  let requests = 0;
  let observation: Observation | null | undefined;
  for (;;) {
    const { value: step, done } = fetch.next(observation);
    if (done === true) break;
    steps.push(step);
    observation = undefined;
    if (step.kind !== 'request') continue;
    requests++;
    if (requests > 200) throw new Error('too many requests');
    const response = respond(step, requests);
    const { times = [], ...rest } = response ?? {};
    const t = Float64Array.from(times);
    const columns = { t, p: t.map((_, i) => i / 1000), received: times.length, rejected: [], gaps: [] };
    const page = { ...columns, from: null, to: null, generatedAt: later + requests * 1000, ...rest };
    const requested = toRequestedWindow(behavior, step.window, step.isExact);
    const sent = { requested, limit: 5000, sentAt: later, futureMs: later + minute * 60 };
    observation = response === null ? null : observePage(page, step.window, sent).observation;
  }
  const of = <K extends FetchStep['kind']>(kind: K) =>
    steps.filter((step) => step.kind === kind) as Extract<FetchStep, { kind: K }>[];
  const proven = of('claim').filter(({ evidence }) => evidence !== 'inferred');
  return {
    steps,
    of,
    requests,
    behavior,
    proven: subtract(
      proven.map((step) => step.window),
      [],
    ),
  };
}

const all = every(minute, 40);
const whole = ({ window: w }: Request): ScriptedResponse => ({ times: selectTicks(all, w) });
/** The claims that remain after withdrawals. */
function computeRemainingClaims(steps: readonly FetchStep[]): Window[] {
  let out: Window[] = [];
  for (const step of steps) {
    if (step.kind === 'claim' && step.evidence !== 'inferred') out = subtract([...out, step.window], []);
    if (step.kind === 'withdraw') out = subtract(out, [step.window]);
  }
  return out;
}

describe('a window', () => {
  test('that is empty is left to be judged later, without the stated gaps', () => {
    const gap = { from: start + minute, to: start + 2 * minute };
    const { of } = drive(() => ({ gaps: [gap] }));
    expect(of('empty').map((step) => step.window)).toEqual(subtract([window], [gap]));
    expect(of('claim')).toEqual([]);
  });

  test('is confirmed by one request with other bounds per side', () => {
    const { of, proven, requests } = drive(whole);
    expect(proven).toEqual([window]);
    const [first, ...rest] = of('request');
    expect(first!.window).toEqual(window);
    for (const { window: w } of rest.filter(({ side }) => side !== 'whole')) expect(w).not.toEqual(window);
    // Each side was requested from the median tick at least.
    const sides = (side: 'low' | 'high') => rest.filter((step) => step.side === side).map((step) => step.window);
    expect(Math.min(...sides('high').map(({ from }) => from))).toBeLessThanOrEqual(all[19]!);
    expect(Math.max(...sides('low').map(({ to }) => to))).toBeGreaterThan(all[20]!);
    expect(requests).toBeLessThanOrEqual(1 + 2 + 3);
  });

  test('is not stated by an echo of the request, only by a narrower end at a tick', () => {
    const cap = 10;
    const echo = drive(({ window: w }) => ({ times: selectTicks(all, w, cap), from: w.from - 1, to: w.to }));
    expect(echo.of('claim').map(({ evidence }) => evidence)).not.toContain('stated');
    expect(echo.proven).toEqual([window]);
    const stated = drive(({ window: w }) => {
      const times = selectTicks(all, w, cap);
      return { times, from: w.from - 1, to: times.length === cap ? times.at(-1)! : w.to };
    });
    expect(stated.of('claim').map(({ evidence }) => evidence)).toContain('stated');
    expect(stated.proven).toEqual([window]);
  });

  test('is checked at both sides, so that ticks truncated at its start are found', () => {
    const { steps, of } = drive(({ window: w }) => ({ times: selectTicks(all, w).slice(-10) }));
    expect(computeRemainingClaims(steps)).toEqual([window]);
    expect(of('request').some(({ side }) => side === 'low')).toBe(true);
    expect(Math.min(...of('request').map((step) => step.window.to))).toBeLessThan(all[10]!);
  });

  test('is split after contradicting responses, and its claims are withdrawn', () => {
    // The first pages omit a tick that later ones contain.
    const hidden = all[30]!;
    const { of, steps, behavior } = drive(({ window: w }, nth) => ({
      times: selectTicks(all, w, 25).filter((t) => t !== hidden || nth > 4),
    }));
    expect(behavior.contradictions).toBeGreaterThan(0);
    const withdrawnAt = steps.findIndex(({ kind }) => kind === 'withdraw');
    expect(withdrawnAt).toBeGreaterThan(steps.findIndex(({ kind }) => kind === 'claim'));
    expect(of('gap')).toEqual([]);
    expect(computeRemainingClaims(steps)).toEqual([window]);
  });

  test('keeps a crowded millisecond as a gap and continues after it', () => {
    const moment = all[20]!;
    const rows = all.flatMap((t) => (t === moment ? Array.from({ length: 30 }, () => t) : [t]));
    const { of, steps } = drive(({ window: w }) => ({ times: selectTicks(rows, w, 12) }));
    const gaps = of('gap');
    expect(gaps.map(({ reason, window: w }) => [reason, w])).toEqual([
      [crowdedReason, { from: moment, to: moment + 1 }],
    ]);
    expect(intersect(computeRemainingClaims(steps), [{ from: moment, to: moment + 1 }])).toEqual([]);
    expect(intersect(computeRemainingClaims(steps), [{ from: all[25]!, to: all[26]! }])).toHaveLength(1);
  });

  test('covers its first millisecond although a server adds a tick before the window', () => {
    const times = every(minute, 9);
    // Two prices one millisecond before the window, and one further tick that this server always adds.
    const respond = ({ window: { from, to } }: Request): ScriptedResponse => ({
      times: [start - minute, start - 1, start - 1, ...times]
        .filter((t) => t >= from - 1 && t < to)
        .concat(start - minute),
    });
    const { of, proven } = drive(respond);
    expect(of('gap')).toEqual([]);
    expect(proven).toEqual([{ from: start, to: window.to }]);
  });

  test("is a gap if more than 1 % of a response's elements are unusable", () => {
    const rejected = (count: number) => Array.from({ length: count }, () => ({ reason: 'p is missing', raw: '{}' }));
    const bad = drive((request) => ({ ...whole(request), received: 42, rejected: rejected(2) }));
    expect(bad.of('claim')).toEqual([]);
    const gaps = bad.of('gap');
    expect(gaps[0]!.reason).toBe('2 of 42 elements in a response were rejected');
    expect(subtract([{ from: start, to: all.at(-1)! + 1 }], [gaps[0]!.window])).toEqual([]);
    const fine = drive((request) => ({ ...whole(request), received: 400, rejected: rejected(4) }));
    expect(fine.of('gap').filter(({ reason }) => reason.includes('were rejected'))).toEqual([]);
  });

  test('is not confirmed by two responses with the same time', () => {
    const frozen = drive((request) => ({ ...whole(request), generatedAt: later }));
    expect(frozen.of('pause').length).toBeGreaterThan(0);
    expect(frozen.proven).toEqual([]);
    expect(frozen.of('claim').map((step) => [step.evidence, step.window])).toEqual([['inferred', window]]);
  });
});

describe('a poll from a known tick', () => {
  const knownTick = all[10]!;
  const inferred: CoveredWindow[] = [
    { from: start, to: knownTick + minute / 2, fetchedAt: later - minute, origin: 'poll', evidence: 'inferred' },
  ];
  const options: FetchOptions = { confirm: 'next', lastTick: knownTick, knownTick, inferred };
  const earlier = (steps: readonly FetchStep[]) => intersect(computeRemainingClaims(steps), inferred);

  test("confirms the previous poll's inferred window with one request", () => {
    const { behavior: known } = drive(whole);
    expect(known.largestWhole).toBe(all.length);
    const { steps, of } = drive(whole, options);
    expect(earlier(steps)).toEqual([{ from: start, to: inferred[0]!.to }]);
    expect(of('claim').at(-1)!.evidence).toBe('inferred');
    expect(of('request')[0]!.window.from).toBe(Math.min(window.from, knownTick));
  });

  test('confirms neither a window with a late tick nor one without the known tick', () => {
    const late = knownTick + minute / 4;
    const { steps } = drive(
      ({ window: w }) => ({ times: selectTicks([...all.slice(0, 11), late, ...all.slice(11)], w) }),
      options,
    );
    const first = steps.filter(({ kind }) => kind === 'claim')[0] as Extract<FetchStep, { kind: 'claim' }>;
    expect(first).toMatchObject({ evidence: 'confirmed', window: { to: knownTick + 1 } });
    const withoutKnownTick = drive(() => ({}), options);
    expect(withoutKnownTick.of('claim')).toEqual([]);
    expect(withoutKnownTick.of('empty')).toMatchObject([{ lacksKnownTick: true }]);
  });
});
