/** Drives the generator that decides what to request and what to claim. */
import { describe, expect, test } from 'vitest';
import { intersect, isWithin, subtract, union, type Window } from '../../../src/base/window.ts';
import type { TickPage } from '../../../src/client/upstream.ts';
import {
  crowdedReason,
  defaultFetchOptions,
  type FetchOptions,
  type FetchStep,
} from '../../../src/collector/paging/fetch-steps.ts';
import { fetchWindow } from '../../../src/collector/paging/fetch-window.ts';
import { type Observation, observePage } from '../../../src/collector/paging/observation.ts';
import {
  createServerBehavior,
  type ServerBehavior,
  toRequestedWindow,
} from '../../../src/collector/paging/server-behavior.ts';
import { every, later, minute, selectTicks, start, window } from './served.ts';

type ScriptedResponse = Partial<TickPage> & { readonly times?: readonly number[] };
type Request = Extract<FetchStep, { kind: 'request' }>;

/** All steps of a fetch. Responses are generated one second apart unless stated otherwise. */
function drive(
  respond: (request: Request, nth: number) => ScriptedResponse | null,
  options: Partial<FetchOptions> = {},
  known: Partial<ServerBehavior> = {},
  asked = window,
) {
  const behavior = { ...createServerBehavior(), ...known };
  const fetch = fetchWindow(behavior, asked, { ...defaultFetchOptions, ...options });
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
    const page = {
      ...columns,
      from: null,
      to: null,
      generatedAt: asked.to + later - window.to + requests * 1000,
      ...rest,
    };
    const requested = toRequestedWindow(behavior, step.window, step.isExact);
    const sent = { requested, limit: 5000, sentAt: later, futureMs: asked.to + later - window.to + minute * 60 };
    observation = response === null ? null : observePage(page, step.window, sent).observation;
  }
  const of = <K extends FetchStep['kind']>(kind: K) =>
    steps.filter((step) => step.kind === kind) as Extract<FetchStep, { kind: K }>[];
  return {
    steps,
    of,
    requests,
    behavior,
    proven: union(steps.flatMap((step) => (isShownWhole(step) ? [step.window] : []))),
  };
}

/** What the pages prove, and the ends that no row cap cut: whether these are proven is up to other responses. */
const isShownWhole = (step: FetchStep): step is Extract<FetchStep, { kind: 'claim' | 'edge' }> =>
  (step.kind === 'claim' && step.evidence !== 'inferred') || (step.kind === 'edge' && step.isUncapped);

const all = every(minute, 40);
const whole = ({ window: w }: Request): ScriptedResponse => ({ times: selectTicks(all, w) });
/** The claims that remain after withdrawals. */
function computeRemainingClaims(steps: readonly FetchStep[]): Window[] {
  let out: Window[] = [];
  for (const step of steps) {
    if (isShownWhole(step)) out = subtract([...out, step.window], []);
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

  test('is asked for once more at each side, from its outermost tick', () => {
    const { of, proven } = drive(whole);
    expect(proven).toEqual([window]);
    expect(of('request').map((step) => step.window)).toEqual([
      window,
      { from: window.from, to: all[0]! + 1 },
      { from: all.at(-1)!, to: window.to },
    ]);
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

  test('is continued by parts if a response lacks the tick from which it was requested', () => {
    // Responses hold the last ten ticks or the first ten, in turn.
    const { of, steps, behavior } = drive(({ window: w }, nth) => {
      const times = selectTicks(all, w);
      return { times: nth % 2 === 0 ? times.slice(-10) : times.slice(0, 10) };
    });
    expect(behavior.contradictions).toBeGreaterThan(0);
    expect(of('gap')).toEqual([]);
    const shown = all.filter((t) => steps.some((step) => step.kind === 'claim' && isWithin(t, step.window)));
    expect(shown).toEqual(all);
  });

  test('of a server that omits ticks is compared with its widest gap, and fetched in parts', () => {
    const shown = new Set<number>();
    const wide = { from: start, to: start + 12 * (window.to - start) };
    const sparse = all.map((t) => start + 12 * (t - start));
    const sampled = ({ window: w }: Request): ScriptedResponse => {
      const inside = selectTicks(sparse, w);
      const times = inside.filter((_, i) => i % Math.ceil(inside.length / 5) === 0);
      for (const t of times) shown.add(t);
      return { times };
    };
    const trusted = drive(sampled, {}, {}, wide);
    expect(shown.size).toBeLessThan(sparse.length);
    const compared = drive(sampled, {}, { omitsTicks: true }, wide);
    expect([...shown].sort((a, b) => a - b)).toEqual(sparse);
    expect(compared.of('omission')).toEqual([]);
    expect(compared.behavior.contradictions).toBeGreaterThan(0);
    expect(compared.requests).toBeGreaterThan(trusted.requests);
    const honest = drive(whole, {}, { omitsTicks: true });
    expect(honest.behavior.contradictions).toBe(0);
    expect(honest.requests).toBe(4);
  });

  test('of a server that omits ticks of an hour too is an omission', () => {
    const second = ({ window: w }: Request): ScriptedResponse => ({
      times: selectTicks(all, w).filter((_, i) => i % 2 === 0),
    });
    const { of, requests } = drive(second, {}, { omitsTicks: true });
    expect(of('omission')).toMatchObject([{ t: all[1] }]);
    expect(requests).toBe(4);
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

  test.each([
    ['last', 'high', all.at(-1)!],
    ['first', 'low', all[0]!],
  ] as const)('does not prove its %s millisecond if a second page has fewer ticks of it', (_, side, edge) => {
    const rows = [...all, edge].sort((a, b) => a - b);
    const outermost = (request: Request): ScriptedResponse =>
      request.side === side ? { times: [edge] } : { times: selectTicks(rows, request.window) };
    expect(intersect(drive(outermost).proven, [{ from: edge, to: edge + 1 }])).toEqual([]);
    // A second page with both of them proves it.
    const whole = drive((request) => ({ times: selectTicks(rows, request.window) }));
    expect(intersect(whole.proven, [{ from: edge, to: edge + 1 }])).toHaveLength(1);
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
});

describe('a poll from a known tick', () => {
  const knownTick = all[10]!;
  const options: FetchOptions = { isContinued: true, lastTick: knownTick, knownTick };

  test('proves what lies between it and the last tick with two requests to an unknown server, and leaves the end to be judged', () => {
    const { behavior: known } = drive(whole);
    expect(known.largestWhole).toBe(all.length);
    const late = knownTick + minute / 4;
    const { of } = drive(
      ({ window: w }) => ({ times: selectTicks([...all.slice(0, 11), late, ...all.slice(11)], w) }),
      options,
    );
    expect(of('request')[0]!.window.from).toBe(Math.min(window.from, knownTick));
    expect(of('edge')).toMatchObject([
      { side: 'after', isUncapped: true, window: { from: all.at(-1)! + 1, to: window.to } },
    ]);
  });

  test('says that an empty response lacks it', () => {
    const { of } = drive(() => ({}), options);
    expect(of('claim')).toEqual([]);
    expect(of('empty')).toMatchObject([{ lacksKnownTick: true }]);
  });
});
