import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import { systemDisk } from '../../../src/archive/disk/file-system.ts';
import type { Clock, Log } from '../../../src/base/ports.ts';
import { systemClock } from '../../../src/base/system.ts';
import { startProgress } from '../../../src/cli/progress.ts';
import type { Summary } from '../../../src/collector/run/summary.ts';
import type { Context } from '../../../src/context/context.ts';
import type { ChangeableOptions, SandboxOptions } from '../../../src/sandbox/options.ts';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { scratchRoot } from '../../harness/scratch-root.ts';

// Nights one after another in this process: the real job, archive and sandbox, on a wall clock that is moved by hand.

export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

/** The moment of the first night: long enough after the sandbox's epoch for markets of every age. */
export const firstNight = Date.UTC(2025, 5, 1, 3, 17);

export interface Nights {
  readonly output: string;
  /** The service as it is now. */
  box(): Sandbox;
  /** Moves service and collector to `nowMs` and runs a night there. */
  night(nowMs: number, ...set: string[]): Promise<Summary>;
  /** What any job sees when it runs at `nowMs`. */
  contextAt(nowMs: number, ...set: string[]): Promise<Context>;
  /** Another service under the same name in place of the one before. */
  replace(options: Partial<SandboxOptions>): Promise<void>;
}

const silent: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** Settings for tests in which files only have to be there: few of them, which is what a night spends its time on. */
export const fewFiles = ['archive.parts=1', 'archive.candles=[]'];

/** An archive and a service that go with the test; `always` is set in every run. */
export async function startNights(
  options: Partial<SandboxOptions> = {},
  always: readonly string[] = [],
): Promise<Nights> {
  const output = mkdtempSync(join(scratchRoot, 'oddslake-nights-'));
  onTestFinished(() => rmSync(output, { recursive: true, force: true }));
  let wallMs = firstNight;
  const clock: Clock = { ...systemClock, nowMs: () => wallMs };
  const begin = (given: Partial<SandboxOptions>) => startSandbox({ ...given, nowMs: wallMs }, { clock: systemClock });
  let box = await begin(options);
  onTestFinished(() => box.stop());
  // Names of runs begin with their second, and a night may follow another within it.
  let runs = 0;

  async function contextAt(nowMs: number, ...set: string[]): Promise<Context> {
    wallMs = nowMs;
    box.set({ nowMs } satisfies ChangeableOptions);
    const settings = await loadSettings({
      env: { ODDSLAKE_BASE_URL: box.url, ODDSLAKE_API_KEY: 'sandbox-key' },
      cwd: tmpdir(),
      output,
      set: [
        'source.name=box',
        'upstream.requests_per_second=5000',
        'upstream.retry_delay_seconds_min=0.01',
        'report.nightly=false',
        ...always,
        ...set,
      ],
    });
    return {
      settings,
      clock,
      log: silent,
      signal: new AbortController().signal,
      version: 'test',
      waitMs: 0,
      strict: false,
      threads: 1,
      canCreateArchive: false,
      disk: systemDisk,
      random: () => (++runs % 1e6) / 1e6,
      startDisplay: (label, total, unit) =>
        startProgress({ label, total, unit, clock, log: silent, stream: process.stderr, isShown: false }),
    };
  }
  return {
    output,
    box: () => box,
    contextAt,
    night: async (nowMs, ...set) => nightly.run(await contextAt(nowMs, ...set), { day: null }),
    async replace(given) {
      await box.stop();
      box = await begin(given);
    },
  };
}
