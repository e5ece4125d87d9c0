import { cpSync, globSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { SandboxOptions } from '../../src/sandbox/options.ts';
import { importInto } from '../e2e/import-lake.ts';
import { coverageOf, hashes } from '../e2e/lake.ts';
import { dayMs, firstNight, hourMs, type Nights, startNights } from './nights.ts';

/** A folder for another archive, or for raw pages put away. */
function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'oddslake-raw-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

const rawOf = (output: string): string => join(output, '.oddslake/raw');
const kept = (output: string): string[] => globSync('**/*.raw', { cwd: rawOf(output) }).sort();

/** What both archives hold of what was polled. */
const polled = (output: string) => ({
  files: hashes(output, 'ticks', 'markets', 'orderbooks', 'conflicts'),
  coverage: coverageOf(output),
});

async function someNights(options: Partial<SandboxOptions>, ...set: string[]): Promise<Nights> {
  const nights = await startNights({ markets: 10, ticksPerDay: 150, ...options });
  for (let n = 0; n < 3; n++) {
    const summary = await nights.night(firstNight + n * dayMs, 'orderbooks.all_live=true', ...set);
    expect(summary.warnings).toEqual([]);
    expect(summary.failures).toEqual([]);
  }
  return nights;
}

test.each<[string, Partial<SandboxOptions>, string[]]>([
  ['whole pages', {}, []],
  ['pages that are cut off, the earliest ticks kept', { cap: 60 }, []],
  ['pages that are cut off, the latest ticks kept', { cap: 60, truncate: 'latest' }, ['upstream.concurrency=1']],
  ['late and revised ticks, and repeats', { lateShare: 0.1, reviseShare: 0.1, repeatShare: 0.2, cap: 70 }, []],
  ['faults', { faultShare: 0.2, faults: ['500', 'bad-json', 'html', 'wrong-symbol', 'reset-body'] }, []],
  ['edges told otherwise', { toInclusive: true, fromInclusive: false, echoWindow: 'none', cap: 80 }, []],
])('nights read again from their raw pages give the same archive: %s', async (_, options, set) => {
  const nights = await someNights(options, ...set);
  const again = folder();
  const summary = await importInto(again, [rawOf(nights.output)]);
  expect(summary).toMatchObject({ exit_code: 0, failures: [], ticks: { quarantined: 0 } });
  expect(polled(again)).toEqual(polled(nights.output));
});
void [cpSync, kept, hourMs];
