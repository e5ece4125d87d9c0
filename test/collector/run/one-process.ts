import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { systemClock } from '../../../src/base/system.ts';
import type { Context } from '../../../src/context/context.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { createContext } from '../../harness/job-context.ts';
import { quarantineLines } from '../../harness/quarantine.ts';
import { scratchRoot } from '../../harness/scratch-root.ts';
import { startScripted } from './scripted-service.ts';

// Runs a real job in this process, with a wall clock that the test sets.

/** A folder for an archive, and a function that removes it. */
export function archiveFolder(): { readonly output: string; remove(): void } {
  const output = mkdtempSync(join(scratchRoot, 'oddslake-night-'));
  return { output, remove: () => rmSync(output, { recursive: true, force: true }) };
}

/** Run IDs start with the second, and in tests several runs may start in one second. */
let runs = 0;

/** The context of a job with the archive `output` and the service at `url`. The test sets the wall clock. */
export async function contextOf(
  output: string,
  url: string,
  nowMs: () => number,
  set: readonly string[] = [],
): Promise<Context> {
  const settings = await loadSettings({
    env: { ODDSLAKE_BASE_URL: url, ODDSLAKE_API_KEY: 'sandbox-key' },
    cwd: tmpdir(),
    output,
    set: [
      'source.name=box',
      'upstream.requests_per_second=5000',
      'upstream.retry_delay_seconds_min=0.001',
      'upstream.retry_delay_seconds_max=0.01',
      'report.nightly=false',
      ...set,
    ],
  });
  return createContext({ settings, clock: { ...systemClock, nowMs }, random: () => (++runs % 1e6) / 1e6 });
}

/** A scripted service and an archive of it, which are removed after the test, and the contexts of its jobs. */
export async function scriptedLake(startMs: number, symbols: readonly string[], set: readonly string[] = []) {
  const box = await startScripted(startMs, symbols);
  onTestFinished(() => box.stop());
  const output = scratchFolder();
  /** The clock of the job is that of the service, which this sets. */
  const contextAt = (nowMs: number): Promise<Context> => {
    box.nowMs = nowMs;
    return contextOf(output, box.url, () => box.nowMs, set);
  };
  return { box, output, contextAt };
}

export interface SetAside {
  readonly symbol: string | null;
  readonly reason: string;
  /** As received. */
  readonly raw: string;
}

/** All quarantined input, in order of publish. */
export const quarantined = (output: string): SetAside[] =>
  quarantineLines(output).map((line) => JSON.parse(line) as SetAside);
