import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { systemDisk } from '../../../src/archive/disk/file-system.ts';
import { readCurrentState } from '../../../src/archive/known-state.ts';
import { openArchive } from '../../../src/archive/open-archive.ts';
import { computeCompletenessOf } from '../../../src/archive/read/status.ts';
import { toCompletenessRules } from '../../../src/context/open-configured.ts';
import type { SandboxOptions } from '../../../src/sandbox/sandbox-options.ts';
import { manifestOf, ticksOf } from '../../e2e/lake.ts';
import { at, fewFiles, type Nights, startNights } from './nights.ts';

// Market lists that are cut off and do not say so, over several nights.

const size = { seed: 5, markets: 40, ticksPerDay: 8 };
const settings = [
  ...fewFiles,
  'source.views=matched',
  'source.first_lookback_days=2',
  'source.downsampled_after_days=400',
];

const countRequests = ({ box }: Nights): number => box().stats().byPath['/api/v1/markets']?.['200'] ?? 0;

const listReasons = ({ output }: Nights) =>
  Object.values(manifestOf(output).days).flatMap(({ reasons = [] }) =>
    reasons.filter(({ reason }) => reason === 'lists unproven').map(({ detail }) => detail!),
  );

test('an honest service needs one request more a night, and its days are complete without a warning', async () => {
  const nights = await startNights(size, settings);
  const requests: number[] = [];
  for (let n = 0; n < 9; n++) {
    const before = countRequests(nights);
    const summary = await nights.night(at(n));
    expect(summary, JSON.stringify(summary.findings)).toMatchObject({ exit_code: 0, failures: [], warnings: [] });
    requests.push(countRequests(nights) - before);
  }
  expect(listReasons(nights)).toEqual([]);
  const { days } = manifestOf(nights.output);
  const states = Object.values(days).map(({ state }) => state);
  expect(states.filter((state) => state === 'incomplete').length).toBeLessThanOrEqual(1);
  // The list and its total; with both sources at first and after a week, and whenever as many other markets are listed.
  expect([requests[0], requests[7]]).toEqual([4, 4]);
  expect(requests.slice(1, 7).every((count) => count === 2 || count === 4)).toBe(true);
  expect(requests.filter((count) => count === 2).length).toBeGreaterThan(3);
});

test.each<[string, Partial<SandboxOptions>, RegExp]>([
  ['no total', { reshape: { 'markets:total': 'gone' } }, /further markets|states no total/],
  ['the total of the response', { marketsTotal: 'response' }, /further market|with limit 1/],
  ['the total of the cut list', { marketsTotal: 'capped' }, /further market/],
  [
    'the total of the cut list, and other markets each time',
    { marketsTotal: 'capped', marketsShuffled: true },
    /further market/,
  ],
])('a list cut at 25 of 40 with %s leaves its days provisional, with the reason', async (_, options, doubt) => {
  const nights = await startNights({ ...size, marketsCap: 25, ...options }, settings);
  for (let n = 0; n < 4; n++) {
    const summary = await nights.night(at(n));
    expect(summary).toMatchObject({ exit_code: 0, failures: [] });
    const finding = summary.findings.find(({ kind }) => kind === 'market list');
    expect(finding).toMatchObject({ severity: 'warning', message: expect.stringMatching(doubt) });
    expect(finding!.message).toMatch(
      /^Market lists not proven whole, so that their days stay provisional: view matched: /,
    );
  }
  const { days } = manifestOf(nights.output);
  expect(Object.values(days).filter(({ state }) => /^complete/.test(state))).toEqual([]);
  const details = listReasons(nights);
  expect(details.length).toBeGreaterThan(4);
  for (const detail of details) expect(detail).toMatch(doubt);
  expect(
    Object.values(days).some(({ reason }) => reason?.includes('market lists not proven whole: view matched')),
  ).toBe(true);
  // What the sources name is collected as well.
  expect(ticksOf(nights.output).size).toBeGreaterThan(30);
});

test('a list that states the total of all markets, and is completed by its sources, is whole', async () => {
  const nights = await startNights({ ...size, marketsCap: 42 }, settings);
  for (const n of [0, 1]) expect(await nights.night(at(n))).toMatchObject({ exit_code: 0, failures: [], warnings: [] });
  expect(listReasons(nights)).toEqual([]);
});

test('a list that states a total that no request reaches is a failure, and its days are incomplete', async () => {
  const nights = await startNights({ ...size, marketsCap: 10 }, settings);
  for (const n of [0, 1]) {
    const summary = await nights.night(at(n));
    expect(summary).toMatchObject({ exit_code: 4 });
    expect(summary.failures.map(({ reason }) => reason)).toEqual([
      expect.stringMatching(/list is truncated: \d+ of \d+ received/),
    ]);
  }
  const states = Object.values(manifestOf(nights.output).days).map(({ state }) => state);
  expect(new Set(states)).toEqual(new Set(['incomplete']));
});

test.each([
  ['are complete again from the day on which the lists are whole', []],
  ['are what they would be when the state is lost meanwhile', [0, 2, 3]],
])('days %s', async (_, losses) => {
  const nights = await startNights({ ...size, reshape: { 'markets:total': 'gone' } }, settings);
  /** The state of every day, judged now, and what it says of its lists. */
  const judge = async (n: number) => {
    const { settings } = await nights.contextAt(at(n));
    const options = { root: nights.output, create: false, upstream: null, parts: 1, writer: 'test' };
    const archive = openArchive(options, systemDisk);
    const state = readCurrentState(archive, toCompletenessRules(settings), at(n));
    const { days } = computeCompletenessOf(archive, state, at(n));
    archive.close();
    return [...days].map(([day, { state: name, reasons = [] }]) => ({
      day,
      name,
      lists: reasons.filter(({ reason }) => reason.startsWith('lists')),
    }));
  };
  const lose = async (n: number): Promise<void> => {
    if (!losses.includes(n)) return;
    const before = await judge(n);
    rmSync(join(nights.output, '.oddslake'), { recursive: true });
    expect(await judge(n)).toEqual(before);
  };
  await nights.night(at(0));
  expect(listReasons(nights).length).toBeGreaterThan(1);
  await lose(0);
  nights.box().set({ reshape: {} });
  for (const n of [1, 2, 3]) {
    expect(await nights.night(at(n))).toMatchObject({ exit_code: 0, warnings: [] });
    await lose(n);
  }
  const { days } = manifestOf(nights.output);
  const unproven = Object.keys(days).filter((date) =>
    days[date]!.reasons?.some(({ reason }) => reason === 'lists unproven'),
  );
  expect(unproven).toEqual(['2025-06-01']);
});
