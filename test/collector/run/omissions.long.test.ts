import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { job as importJob } from '../../../jobs/import.ts';
import { job as nightly } from '../../../jobs/nightly.ts';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import { readCurrentState } from '../../../src/archive/known-state.ts';
import { computeCompletenessOf } from '../../../src/archive/read/status.ts';
import { formatDay } from '../../../src/base/time.ts';
import { toCompletenessRules } from '../../../src/context/open-configured.ts';
import { flagsOf } from '../../e2e/import-lake.ts';
import { withArchive } from './lost-lake.ts';
import { at, dayMs, fewFiles, firstNight, hourMs, type Nights, startNights } from './nights.ts';
import { scriptedLake } from './one-process.ts';

/** The state of the day before the night `n`, days before it, as the archive judges it after that night. */
async function listStates(nights: Nights, n: number, daysBefore: readonly number[]): Promise<unknown[]> {
  const { settings } = await nights.contextAt(at(n));
  return withArchive(nights, at(n), (archive) => {
    const { days } = computeCompletenessOf(
      archive,
      readCurrentState(archive, toCompletenessRules(settings), at(n)),
      at(n),
    );
    const states = new Map([...days].map(([day, { state }]) => [formatDay(day), state]));
    return daysBefore.map((before) => states.get(formatDay(at(n) - before * dayMs)));
  });
}

const omitted = (summary: Summary): string[] => summary.warnings.filter((text) => text.includes('leaves out its tick'));

test('days lose complete when a service begins to leave ticks out, and regain it when it leaves none out', async () => {
  const nights = await startNights({ seed: 7, markets: 24, ticksPerDay: 30, lifetimeDaysMax: 90 }, fewFiles, {
    runs: true,
  });
  for (const n of [0, 1, 2]) expect(omitted(await nights.night(at(n)))).toEqual([]);
  expect(await listStates(nights, 2, [2, 3, 4])).toEqual(['complete', 'complete', 'complete']);

  nights.box().set({ thinShare: 0.3, thinAfterMs: 30 * hourMs });
  const caught = await nights.night(at(3));
  const [text] = omitted(caught);
  expect(text).toMatch(/^A response for \S+ leaves out its tick of 2025-06-02T\d\d:\d\d:\d\d\.\d+Z/);
  expect(caught.findings).toContainEqual(
    expect.objectContaining({ kind: 'warning', severity: 'warning', message: text!.replace(/\.$/, '') }),
  );
  expect(caught.exit_code).toBe(0);
  expect(await listStates(nights, 3, [2, 3, 4])).toEqual(['provisional', 'provisional', 'provisional']);

  nights.box().set({ thinShare: 0 });
  for (const n of [4, 5, 6, 7, 8, 9]) expect(omitted(await nights.night(at(n)))).toEqual([]);
  expect(await listStates(nights, 9, [2, 3, 4, 5, 6, 7, 8, 9])).toEqual(Array(8).fill('complete'));
});

const symbols = ['A', 'B', 'C', 'D'];

test('a tick that the service has removed for good costs one night', async () => {
  const { box, contextAt } = await scriptedLake(firstNight, symbols, fewFiles);
  let removed = Number.NaN;
  box.script = {
    ticks(honest) {
      const ticks = honest.ticks.filter(({ t }) => t !== removed);
      return { ...honest, ticks, count: ticks.length };
    },
  };
  const night = async (n: number): Promise<number> =>
    omitted(await nightly.run(await contextAt(at(n)), { day: null })).length;
  expect([await night(0), await night(1), await night(2)]).toEqual([0, 0, 0]);
  const day = at(2) - (at(2) % dayMs) - dayMs;
  removed = box.truth('A', day, day + dayMs)[100]!.t;
  expect([await night(3), await night(4), await night(5)]).toEqual([1, 0, 0]);
});

test('ticks of imported files are not expected from the service', async () => {
  const { box, output, contextAt } = await scriptedLake(firstNight, symbols, fewFiles);
  for (const n of [0, 1]) await nightly.run(await contextAt(at(n)), { day: null });
  const day = at(2) - (at(2) % dayMs) - 2 * dayMs;
  const file = join(output, '..', `imported-${box.nowMs}.csv`);
  const rows = Array.from({ length: 24 }, (_, i) => `A,${day + i * hourMs + 1234},0.5`);
  writeFileSync(file, ['symbol,t,p', ...rows].join('\n'));
  const imported = await importJob.run(await contextAt(at(1) + hourMs), flagsOf([file]));
  expect(imported.ticks.accepted).toBe(24);
  expect(omitted(await nightly.run(await contextAt(at(2)), { day: null }))).toEqual([]);
});
