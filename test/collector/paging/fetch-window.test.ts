/** The generator that decides what to request and what to claim, driven by hand. */
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
import { among, every, later, minute, start, window } from './served.ts';

type Said = Partial<TickPage> & { readonly times?: readonly number[] };
type Request = Extract<FetchStep, { kind: 'request' }>;

/** All steps of a fetch; a response is generated a second after the one before, unless it says otherwise. */
function drive(respond: (request: Request, nth: number) => Said | null, options: Partial<FetchOptions> = {}) {
  const behavior = createServerBehavior();
  const fetch = fetchWindow(behavior, window, { ...defaultFetchOptions, ...options });
  const steps: FetchStep[] = [];
  let requests = 0;
  let answer: Observation | null | undefined;
  for (;;) {
    const { value: step, done } = fetch.next(answer);
    if (done === true) break;
    steps.push(step);
    answer = undefined;
    if (step.kind !== 'request') continue;
    requests++;
    if (requests > 200) throw new Error('it goes round in circles');
    const said = respond(step, requests);
    const { times = [], ...rest } = said ?? {};
    const t = Float64Array.from(times);
    const columns = { t, p: t.map((_, i) => i / 1000), received: times.length, rejected: [], gaps: [] };
    const page = { ...columns, from: null, to: null, generatedAt: later + requests * 1000, ...rest };
    const requested = toRequestedWindow(behavior, step.window, step.isExact);
    const sent = { requested, limit: 5000, sentAt: later, futureMs: later + minute * 60 };
    answer = said === null ? null : observePage(page, step.window, sent).observation;
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
const whole = ({ window: w }: Request): Said => ({ times: among(all, w) });
/** What is left of the claims once withdrawals took effect. */
function standing(steps: readonly FetchStep[]): Window[] {
  let out: Window[] = [];
  for (const step of steps) {
    if (step.kind === 'claim' && step.evidence !== 'inferred') out = subtract([...out, step.window], []);
    if (step.kind === 'withdraw') out = subtract(out, [step.window]);
  }
  return out;
}

describe('a window', () => {
  test('that is empty is left to be judged with others, less what the service says it lacks', () => {
    const gap = { from: start + minute, to: start + 2 * minute };
    const { of } = drive(() => ({ gaps: [gap] }));
    expect(of('empty').map((step) => step.window)).toEqual(subtract([window], [gap]));
    expect(of('claim')).toEqual([]);
  });

  test('is confirmed by two requests with other bounds that agree, one at each side', () => {
    const { of, proven, requests } = drive(whole);
    expect(proven).toEqual([window]);
    const [first, ...rest] = of('request');
    expect(first!.window).toEqual(window);
    for (const { window: w } of rest.filter(({ side }) => side !== 'whole')) expect(w).not.toEqual(window);
    // Each side was asked for from the median tick on at least.
    const sides = (side: 'low' | 'high') => rest.filter((step) => step.side === side).map((step) => step.window);
    expect(Math.min(...sides('high').map(({ from }) => from))).toBeLessThanOrEqual(all[19]!);
    expect(Math.max(...sides('low').map(({ to }) => to))).toBeGreaterThan(all[20]!);
    expect(requests).toBeLessThanOrEqual(1 + 2 + 3);
  });

  test('is not confirmed by an echo of what was requested: only a narrower end that names a tick is stated', () => {
    const cap = 10;
    const echo = drive(({ window: w }) => ({ times: among(all, w, cap), from: w.from - 1, to: w.to }));
    expect(echo.of('claim').map(({ evidence }) => evidence)).not.toContain('stated');
    expect(echo.proven).toEqual([window]);
    const stated = drive(({ window: w }) => {
      const times = among(all, w, cap);
      return { times, from: w.from - 1, to: times.length === cap ? times.at(-1)! : w.to };
    });
    expect(stated.of('claim').map(({ evidence }) => evidence)).toContain('stated');
    expect(stated.proven).toEqual([window]);
  });

  test('is asked for at both sides: ticks that a page lost at its start are found', () => {
    const { steps, of } = drive(({ window: w }) => ({ times: among(all, w).slice(-10) }));
    expect(standing(steps)).toEqual([window]);
    expect(of('request').some(({ side }) => side === 'low')).toBe(true);
    expect(Math.min(...of('request').map((step) => step.window.to))).toBeLessThan(all[10]!);
  });

  test('of which two responses contradict each other is split, and what was claimed of it is withdrawn', () => {
    // The first pages leave a tick out; later ones bring it.
    const hidden = all[30]!;
    const { of, steps, behavior } = drive(({ window: w }, nth) => ({
      times: among(all, w, 25).filter((t) => t !== hidden || nth > 4),
    }));
    expect(behavior.contradictions).toBeGreaterThan(0);
    const withdrawnAt = steps.findIndex(({ kind }) => kind === 'withdraw');
    expect(withdrawnAt).toBeGreaterThan(steps.findIndex(({ kind }) => kind === 'claim'));
    expect(of('gap')).toEqual([]);
    expect(standing(steps)).toEqual([window]);
  });

  test('keeps a crowded millisecond as a gap, never as proven, and goes on behind it', () => {
    const moment = all[20]!;
    const rows = all.flatMap((t) => (t === moment ? Array.from({ length: 30 }, () => t) : [t]));
    const { of, steps } = drive(({ window: w }) => ({ times: among(rows, w, 12) }));
    const gaps = of('gap');
    expect(gaps.map(({ reason, window: w }) => [reason, w])).toEqual([
      [crowdedReason, { from: moment, to: moment + 1 }],
    ]);
    expect(intersect(standing(steps), [{ from: moment, to: moment + 1 }])).toEqual([]);
    expect(intersect(standing(steps), [{ from: all[25]!, to: all[26]! }])).toHaveLength(1);
  });

  test('is a gap where more than a hundredth of the elements of its response are unusable', () => {
    const rejected = (count: number) => Array.from({ length: count }, () => ({ reason: 'p is missing', raw: '{}' }));
    const bad = drive((request) => ({ ...whole(request), received: 42, rejected: rejected(2) }));
    expect(bad.of('claim')).toEqual([]);
    const gaps = bad.of('gap');
    expect(gaps[0]!.reason).toBe('2 of the 42 elements of a response are unusable');
    expect(subtract([{ from: start, to: all.at(-1)! + 1 }], [gaps[0]!.window])).toEqual([]);
    const fine = drive((request) => ({ ...whole(request), received: 400, rejected: rejected(4) }));
    expect(fine.of('gap').filter(({ reason }) => reason.includes('unusable'))).toEqual([]);
  });

  test('is not confirmed by two responses of one moment, which are one observation', () => {
    const frozen = drive((request) => ({ ...whole(request), generatedAt: later }));
    expect(frozen.of('pause').length).toBeGreaterThan(0);
    expect(frozen.proven).toEqual([]);
    expect(frozen.of('claim').map((step) => [step.evidence, step.window])).toEqual([['inferred', window]]);
  });
});

describe('a poll that goes on from a known tick', () => {
  const knownTick = all[10]!;
  const inferred: CoveredWindow[] = [
    { from: start, to: knownTick + minute / 2, fetchedAt: later - minute, origin: 'poll', evidence: 'inferred' },
  ];
  const options: FetchOptions = { confirm: 'next', lastTick: knownTick, knownTick, inferred };
  const earlier = (steps: readonly FetchStep[]) => intersect(standing(steps), inferred);

  test('confirms what the poll before left inferred, by one request, and leaves its own end inferred', () => {
    const { behavior: known } = drive(whole);
    expect(known.largestWhole).toBe(all.length);
    const { steps, of } = drive(whole, options);
    expect(earlier(steps)).toEqual([{ from: start, to: inferred[0]!.to }]);
    expect(of('claim').at(-1)!.evidence).toBe('inferred');
    expect(of('request')[0]!.window.from).toBe(Math.min(window.from, knownTick));
  });

  test('does not confirm a tail in which a late tick appears, nor anything where the known tick is missing', () => {
    const late = knownTick + minute / 4;
    const { steps } = drive(
      ({ window: w }) => ({ times: among([...all.slice(0, 11), late, ...all.slice(11)], w) }),
      options,
    );
    const first = steps.filter(({ kind }) => kind === 'claim')[0] as Extract<FetchStep, { kind: 'claim' }>;
    expect(first).toMatchObject({ evidence: 'confirmed', window: { to: knownTick + 1 } });
    const gone = drive(() => ({}), options);
    expect(gone.of('claim')).toEqual([]);
    expect(gone.of('empty')).toMatchObject([{ lacksKnownTick: true }]);
  });
});
