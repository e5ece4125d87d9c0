import { expect, test } from 'vitest';
import { boundEdge, proveEdge } from '../../../src/collector/proof/proven.ts';
import { Night, summarizeShown } from '../../../src/collector/proof/shown.ts';
import { day, hour } from './world.ts';

const start = Date.UTC(2026, 5, 1);
const times = (from: number, count: number): Float64Array =>
  Float64Array.from({ length: count }, (_, i) => from + i * hour);

/** A night in which a symbol with so many ticks showed nothing in the four days before its first one. */
function createNight(ticks: number): Night {
  const night = new Night();
  const note = (symbol: string, from: number, all: Float64Array): void =>
    night.note(symbol, summarizeShown({ from, to: start + 30 * day }, all, all.length), all, []);
  const first = start + 4 * day;
  note('full', start, times(start, 100));
  note('late', start, times(first, ticks));
  note('late', start, times(first, 1));
  return night;
}

test('emptiness before a first tick counts only of a symbol with at most half as many ticks as another', () => {
  const empty = { from: start, to: start + day };
  expect(createNight(50).witness('silent', empty).before).toEqual({ hours: 96, days: 4 });
  expect(createNight(50).silences.lead).toMatchObject({ symbol: 'late', from: start, to: start + 4 * day });
  // A store of each symbol's last rows shows as many of both.
  expect(createNight(51).witness('silent', empty).before).toEqual({ hours: 0, days: 0 });
  expect(createNight(51).silences.lead).toBeNull();
});

test('no response is a witness for itself', () => {
  const night = new Night();
  const [few, many] = [3, 200].map((count) => {
    const all = times(start + day, count);
    const shown = summarizeShown({ from: start, to: start + 30 * day }, all, all.length);
    night.note(`of ${count}`, shown, all, []);
    return shown;
  });
  const own = night.witness('of 200', many!);
  expect(own).toMatchObject({ latest: few!.last, spanMs: 2 * hour, hours: 3, days: 1, mostTicks: 3 });
  const other = night.witness('of 3', few!);
  expect(other).toMatchObject({ latest: many!.last, spanMs: 199 * hour, hours: 200, days: 9, mostTicks: 200 });
});

test('a response that begins with the first known tick and shows a later one than the run before it could shows that no row was dropped', () => {
  const night = createNight(51);
  const shown = summarizeShown({ from: start, to: start + 30 * day }, times(start + 4 * day, 51), 51);
  const window = { from: start + 3 * day, to: start + 4 * day };
  const edge = {
    symbol: 'late',
    side: 'before',
    window,
    shown,
    isUncapped: true,
    observedAt: start + 30 * day,
  } as const;
  const witnessed = { ...night.witness('late', shown), spanMs: 40 * day, hours: 200, days: 40 };
  const bridged = { ...witnessed, bridge: { ms: 5 * day, hours: 120, days: 5 } };
  const prove = (hasGrown: boolean) => proveEdge(edge, boundEdge(edge, bridged, 51, hasGrown));
  expect(night.findLastFrom('late', start + 4 * day)).toBeGreaterThan(start + 4 * day);
  expect(night.findLastFrom('late', start)).toBe(Number.NEGATIVE_INFINITY);
  expect(prove(true)).toEqual(window);
  expect(prove(false)).toEqual({ from: window.to, to: window.to });
});

test('a night says how far its answers reach, or what else keeps it from proof', () => {
  const noteAll = (symbols: number, answered: number): Night => {
    const night = new Night();
    for (let i = 0; i < symbols; i++) {
      const all = times(start + i, answered);
      night.note(`S${i}`, summarizeShown({ from: start, to: start + 9 * day }, all, all.length), all, []);
    }
    return night;
  };
  const anyLength = { windowMsMax: Number.POSITIVE_INFINITY, reachMs: Number.POSITIVE_INFINITY };
  expect(noteAll(25, 216).describeLimit(anyLength)).toBeNull();
  const clamped = noteAll(25, 24);
  // It may have nothing else, until another request shows more.
  expect(clamped.measureReach()).toEqual({ requestedMs: 9 * day, reachMs: Number.POSITIVE_INFINITY });
  const more = times(start + 5 * day, 24);
  clamped.note('S0', summarizeShown({ from: start + 5 * day, to: start + 9 * day }, more, 24), more, []);
  const near = clamped.measureReach();
  expect(near).toEqual({ requestedMs: 9 * day, reachMs: 23 * hour + 24 });
  expect(noteAll(25, 24).describeLimit({ ...anyLength, ...near })).toMatch(/^answers reach 23 h.* only$/);
  expect(noteAll(3, 216).describeLimit(anyLength)).toMatch(/^only 3 symbols with ticks/);
  expect(noteAll(25, 216).describeLimit({ ...anyLength, windowMsMax: day })).toBe(
    'requests of more than 1 d are refused',
  );
  const sick = noteAll(25, 216);
  for (let i = 0; i < 30; i++) sick.noteKnown(i < 3);
  expect(sick.describeLimit(anyLength)).toBe('3 of 30 requests that reach a known tick came back empty');
});
