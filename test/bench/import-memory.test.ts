import { expect, test } from 'vitest';
import { type MemoryRun, memoryReport } from '../../bench/import-memory.ts';

const held = (input: string, peakMiB: number | null): MemoryRun => ({
  input,
  measured: { wallMs: 1000, cpuMs: 1000, peakMiB },
});
const outcomes = (all: readonly MemoryRun[]) =>
  memoryReport(all).comparisons.map(({ goal, value, missing }) => (value === null ? missing : goal.met(value)));

test('memory must stay under a bound for every input and must not grow with it', () => {
  expect(outcomes([held('few', 400), held('many', 420)])).toEqual([true, true, true]);
  expect(outcomes([held('few', 300), held('many', 460)])).toEqual([true, true, false]);
  expect(outcomes([held('few', 480), held('more', 600), held('many', 480)])).toEqual([true, false, true, true]);
});

test('the bound is in megabytes of 10⁶ bytes', () => {
  const [first] = memoryReport([held('few', 488)]).comparisons;
  expect([first!.ours, first!.value]).toEqual(['512 MB', 512]);
});

test('growth compares the largest input with the smallest', () => {
  const growth = memoryReport([held('few', 100), held('more', 900), held('many', 200)]).comparisons.at(-1)!;
  expect(growth).toMatchObject({ input: 'many against few', value: 2, ratio: { median: 2 } });
});

test('an input that failed or was not measured has no figure, with the reason', () => {
  const failed: MemoryRun = { input: 'many', failed: 'oddslake exited with 1' };
  expect(outcomes([held('few', 100), failed])).toEqual([true, 'oddslake exited with 1', 'oddslake exited with 1']);
  expect(memoryReport([held('few', 100), failed]).failed).toEqual(['oddslake import']);
  expect(memoryReport([held('few', 100), failed]).timings).toHaveLength(1);
  expect(outcomes([held('few', null), held('many', 1)])[0]).toBe('this machine cannot measure it');
  expect(outcomes([held('few', 100)])).toEqual([true, 'one input only']);
});
