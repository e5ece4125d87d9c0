import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import { systemDisk } from '../../../src/archive/disk/file-system.ts';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import type { Clock, Log } from '../../../src/base/ports.ts';
import { systemClock } from '../../../src/base/system.ts';
import { startProgress } from '../../../src/cli/progress.ts';
import type { Context } from '../../../src/context/context.ts';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import type { ChangeableOptions, SandboxOptions } from '../../../src/sandbox/sandbox-options.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { scratchRoot } from '../../harness/scratch-root.ts';

// Consecutive nights in this process: the real job, archive and sandbox, with a wall clock that the test sets.

export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

/** Time of the first night, long enough after the epoch of the sandbox for markets of every age. */
export const firstNight = Date.UTC(2025, 5, 1, 3, 17);

export interface Nights {
  readonly output: string;
  /** The current service. */
  box(): Sandbox;
  /** Sets the clocks to `nowMs` and runs a night. */
  night(nowMs: number, ...set: string[]): Promise<Summary>;
  /** The context of a job at `nowMs`. */
  contextAt(nowMs: number, ...set: string[]): Promise<Context>;
  /** Replaces the service by another one of the same name. */
  replace(options: Partial<SandboxOptions>): Promise<void>;
}

const silent: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** Settings with few files, which speed up the nights of tests that do not look at the files. */
export const fewFiles = ['archive.parts=1', 'archive.candles=[]'];

/**
 * An archive and a service that are removed after the test; `always` is set in every run.
 * @param runs whether the clocks advance by a millisecond whenever they are read. If not, all responses of a night have one
 * timestamp, so that none of them confirms another.
 */
export async function startNights(
  options: Partial<SandboxOptions> = {},
  always: readonly string[] = [],
  { runs: isRunning = false }: { readonly runs?: boolean } = {},
): Promise<Nights> {
  const output = mkdtempSync(join(scratchRoot, 'oddslake-nights-'));
  onTestFinished(() => rmSync(output, { recursive: true, force: true }));
  let wallMs = firstNight;
  const clock: Clock = { ...systemClock, nowMs: () => (isRunning ? wallMs++ : wallMs) };
  const startService = (given: Partial<SandboxOptions>) =>
    isRunning ? startSandbox(given, { clock }) : startSandbox({ ...given, nowMs: wallMs }, { clock: systemClock });
  let box = await startService(options);
  onTestFinished(() => box.stop());
  // Run IDs start with the second, and several nights may start in one second.
  let runs = 0;

  async function contextAt(nowMs: number, ...set: string[]): Promise<Context> {
    wallMs = nowMs;
    if (!isRunning) box.set({ nowMs } satisfies ChangeableOptions);
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
      box = await startService(given);
    },
  };
}
