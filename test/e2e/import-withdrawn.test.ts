import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { union, type Window } from '../../src/base/window.ts';
import { answer, append, opened } from '../archive/scratch.ts';
import { importInto, pageOf, put, sample, writtenAt } from './import-lake.ts';
import { coverageOf, expectDone, fixedDay, fixedNow, folder, jobArgs, sandbox } from './lake.ts';
import { runJob as job, run } from './run-program.ts';

// Saved responses from before a withdrawal do not cover its window again.

const coveredOf = (output: string, symbol: string): Window[] =>
  union(coverageOf(output).filter((row) => row.symbol === symbol));

/** Withdraws a window in the journal, as a recheck does. */
function withdraw(output: string, symbol: string, window: Window, at: number): void {
  const archive = opened({ root: output, create: false, upstream: null });
  append(archive, answer(symbol, [], { requestedWindow: window, observedAt: at, withdrawn: [window] }));
  archive.close();
}

const publish = (output: string) => expectDone(run(['publish', '--output', output]));

test.each([true, false])('saved pages, with the withdrawal published: %s', async (isPublished) => {
  const output = folder();
  const ticks = sample.filter(({ symbol }) => symbol === 'alpha');
  const [from, to] = [ticks[0]!.t, ticks.at(-1)!.t + 1];
  const importAt = (at: number) =>
    importInto(output, [put(folder(), 'page.json', pageOf('alpha', ticks, { from, to, generated_at: at }))]);
  await importAt(writtenAt);
  expect(coveredOf(output, 'alpha')).toEqual([{ from, to }]);
  withdraw(output, 'alpha', { from: from + 10, to: to - 10 }, writtenAt + 5);
  if (isPublished) await publish(output);
  await importAt(writtenAt + 4);
  const rest = [
    { from, to: from + 10 },
    { from: to - 10, to },
  ];
  expect(coveredOf(output, 'alpha')).toEqual(rest);
  rmSync(join(output, '.oddslake'), { recursive: true });
  await importAt(writtenAt + 4);
  expect(coveredOf(output, 'alpha')).toEqual(rest);
  await importAt(writtenAt + 5);
  expect(coveredOf(output, 'alpha')).toEqual([{ from, to }]);
});

test('raw responses, so that no union with such an archive covers it either', async () => {
  const box = await sandbox({ seed: 8, nowMs: fixedNow, markets: 3, ticksPerDay: 60 });
  const [output, older, saved] = [folder(), join(folder(), 'older'), join(folder(), 'raw')];
  const flags = ['--date', fixedDay, '--set', 'source.first_lookback_days=1'];
  await expectDone(job('nightly', box.url, output, ...flags));
  cpSync(output, older, { recursive: true });
  cpSync(join(output, '.oddslake/raw'), saved, { recursive: true });
  const { symbol, from } = coverageOf(output)[0]!;
  const window = { from, to: from + 3_600_000 };
  const isCovered = (archive: string): boolean => coveredOf(archive, symbol).some((one) => one.from <= from);
  withdraw(output, symbol, window, fixedNow + 1);
  await publish(output);
  // It knows of the withdrawal, and imports older responses.
  await expectDone(run(jobArgs('import', older, output)));
  for (const archive of [output, older]) await expectDone(run(jobArgs('import', archive, saved, '--format', 'raw')));
  expect([output, older].map(isCovered)).toEqual([false, false]);
  await expectDone(run(jobArgs('import', output, older)));
  expect(isCovered(output)).toBe(false);
});
