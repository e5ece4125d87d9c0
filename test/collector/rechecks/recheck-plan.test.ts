import { describe, expect, test } from 'vitest';
import type { CoveredWindow } from '../../../src/archive/format/coverage.ts';
import { createRandom } from '../../../src/base/random.ts';
import { dayMs } from '../../../src/base/window.ts';
import { classifyNewTicks } from '../../../src/collector/rechecks/recheck.ts';
import {
  countRechecks,
  drawSymbol,
  drawTime,
  placeWindow,
  recheckWindowMsMax,
} from '../../../src/collector/rechecks/recheck-plan.ts';

const hourMs = 3_600_000;
const day = Date.UTC(2026, 6, 1);
/** Thirty consecutive nightly responses. */
const coverage = Array.from(
  { length: 30 },
  (_, n): CoveredWindow => ({
    from: day + n * dayMs,
    to: day + (n + 1) * dayMs,
    fetchedAt: day + (n + 1) * dayMs,
    origin: 'poll',
    evidence: 'confirmed',
  }),
);
const end = day + 30 * dayMs;

describe('the sample', () => {
  test.each([
    [0, 5000, 0],
    [0.01, 0, 4],
    [0.01, 399, 4],
    [0.01, 5000, 50],
    [1, 70, 70],
  ])('with share %d of %d requests has %d windows', (share, requests, windows) => {
    expect(countRechecks(share, requests)).toBe(windows);
  });

  test('draws symbols by their ticks, and also quiet ones', () => {
    const random = createRandom(1);
    const symbols = [
      { symbol: 'BUSY', ticks: 990 },
      { symbol: 'QUIET', ticks: 10 },
      { symbol: 'NEVER', ticks: 0 },
    ];
    const drawn = Array.from({ length: 3000 }, () => drawSymbol(symbols, random));
    const share = (name: string): number => drawn.filter((symbol) => symbol === name).length / drawn.length;
    expect(share('BUSY')).toBeGreaterThan(0.75);
    expect(share('QUIET')).toBeGreaterThan(0.05);
    expect(share('NEVER')).toBeGreaterThan(0.05);
    expect(drawSymbol([], random)).toBeNull();
    expect(drawSymbol([{ symbol: 'NEVER', ticks: 0 }], random)).toBe('NEVER');
  });

  test('is covered, with other bounds, mostly recent and partly old', () => {
    const random = createRandom(2);
    const windows = Array.from({ length: 2000 }, () => {
      const moment = drawTime(coverage, random)!;
      return placeWindow(moment, coverage, Float64Array.of(moment.t - 5000), random);
    });
    const bounds = new Set(coverage.flatMap(({ from, to }) => [from, to]));
    for (const { from, to } of windows) {
      expect(from).toBeLessThan(to);
      expect(to - from).toBeLessThanOrEqual(recheckWindowMsMax);
      expect(from).toBeGreaterThanOrEqual(day);
      expect(to).toBeLessThanOrEqual(end);
    }
    const aligned = windows.filter(({ from, to }) => bounds.has(from) && bounds.has(to));
    expect(aligned.length / windows.length).toBeLessThan(0.02);
    const recent = windows.filter(({ to }) => to > end - 3 * dayMs);
    expect(recent.length / windows.length).toBeGreaterThan(0.6);
    expect(windows.filter(({ from }) => from < end - 10 * dayMs).length).toBeGreaterThan(20);
    const narrow = windows.filter(({ from, to }) => to - from < 6 * hourMs);
    expect(narrow.length).toBeGreaterThan(50);
  });

  test('is the same for the same seed', () => {
    const drawn = (seed: number) => {
      const random = createRandom(seed);
      return Array.from({ length: 20 }, () => drawTime(coverage, random));
    };
    expect(drawn(3)).toEqual(drawn(3));
    expect(drawn(3)).not.toEqual(drawn(4));
  });

  test('is nothing if nothing is proven', () => {
    expect(drawTime([], createRandom(5))).toBeNull();
  });
});

describe('new ticks inside coverage', () => {
  const fetchedAt = end;

  test('shortly before their response are late by at least that much', () => {
    expect(classifyNewTicks(coverage, [fetchedAt - 3 * hourMs, fetchedAt - 2 * hourMs])).toEqual({
      latenessMs: 3 * hourMs,
      isLeftOut: false,
    });
  });

  test('far before their response were omitted', () => {
    expect(classifyNewTicks(coverage, [fetchedAt - 20 * hourMs])).toEqual({ latenessMs: null, isLeftOut: true });
  });

  test('were omitted if any of them is far before their response, whatever follows it', () => {
    expect(classifyNewTicks(coverage, [fetchedAt - 20 * hourMs, fetchedAt - 2 * hourMs])).toEqual({
      latenessMs: 2 * hourMs,
      isLeftOut: true,
    });
  });

  test('in old windows have no lateness, because old responses are joined', () => {
    expect(classifyNewTicks(coverage, [day + 5 * dayMs - 2 * hourMs])).toEqual({ latenessMs: null, isLeftOut: true });
  });
});
