import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  overlayPublishedCoverage,
  readPublishedCoverage,
  readSymbolCoverage,
} from '../../../src/archive/journal/coverage-store.ts';
import { openDayPrecedence } from '../../../src/archive/journal/precedence-store.ts';
import { openState, type State } from '../../../src/archive/journal/state.ts';
import { covers, dayMs, floorToDay } from '../../../src/base/window.ts';
import { scratchRoot } from '../../harness/scratch-root.ts';

const hourMs = 3_600_000;
const start = Date.UTC(2026, 0, 1);
let folder: string;
let state: State;

beforeEach(() => {
  folder = mkdtempSync(join(scratchRoot, 'oddslake-coverage-'));
  state = openState(folder, { upstream: 'test' });
});

afterEach(() => {
  state.close();
  rmSync(folder, { recursive: true, force: true });
});

const night = (n: number): void => {
  const end = start + n * dayMs;
  const from = n === 1 ? start : end - dayMs - hourMs;
  overlayPublishedCoverage(state.db, 'A', [
    { from, to: end, fetchedAt: end + 1, origin: 'poll', evidence: 'confirmed' },
  ]);
};

const observed = (t: number): number => openDayPrecedence(state.db, floorToDay(t)).inferPrecedence('A', t).observedAt;

test('keeps a handful of windows for a year of nights, with the same coverage', () => {
  for (let n = 1; n <= 365; n++) night(n);
  const covered = readPublishedCoverage(state.db, 'A');
  expect(covered.length).toBeLessThan(6);
  expect(covers(covered, { from: start, to: start + 365 * dayMs })).toBe(true);
});

test('keeps the responses of the last days separate', () => {
  for (let n = 1; n <= 10; n++) night(n);
  const lastNight = start + 10 * dayMs;
  expect(observed(lastNight - 2 * hourMs)).toBe(lastNight + 1);
  expect(observed(lastNight - 26 * hourMs)).toBe(lastNight - dayMs + 1);
});

test('ignores the coverage of a response from the future', () => {
  const [first, second] = [start + dayMs, start + 2 * dayMs];
  overlayPublishedCoverage(state.db, 'A', [
    { from: start, to: first, fetchedAt: first, origin: 'poll', evidence: 'confirmed' },
  ]);
  overlayPublishedCoverage(state.db, 'A', [
    { from: first, to: second, fetchedAt: second, origin: 'poll', evidence: 'confirmed' },
  ]);
  expect(readSymbolCoverage(state.db, 'A')).toEqual([{ from: start, to: second }]);
  expect(readSymbolCoverage(state.db, 'A', second)).toEqual([{ from: start, to: second }]);
  expect(readSymbolCoverage(state.db, 'A', second - 1)).toEqual([{ from: start, to: first }]);
  expect(readSymbolCoverage(state.db, 'A', first - 1)).toEqual([]);
});
