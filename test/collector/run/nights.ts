import { onTestFinished } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import type { Clock } from '../../../src/base/ports.ts';
import { systemClock } from '../../../src/base/system.ts';
import type { Context } from '../../../src/context/context.ts';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import type { ChangeableOptions, SandboxOptions } from '../../../src/sandbox/sandbox-options.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { contextOf } from './one-process.ts';

// Consecutive nights in this process: the real job, archive and sandbox, with a wall clock that the test sets.

export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

/** Time of the first night, long enough after the epoch of the sandbox for markets of every age. */
export const firstNight = Date.UTC(2025, 5, 1, 3, 17);

/** Time of the night `n`, from 0. */
export const at = (n: number): number => firstNight + n * dayMs;

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
  const output = scratchFolder();
  let wallMs = firstNight;
  const clock: Clock = { ...systemClock, nowMs: () => (isRunning ? wallMs++ : wallMs) };
  const startService = (given: Partial<SandboxOptions>) =>
    isRunning ? startSandbox(given, { clock }) : startSandbox({ ...given, nowMs: wallMs }, { clock: systemClock });
  let box = await startService(options);
  onTestFinished(() => box.stop());

  async function contextAt(nowMs: number, ...set: string[]): Promise<Context> {
    wallMs = nowMs;
    if (!isRunning) box.set({ nowMs } satisfies ChangeableOptions);
    return contextOf(output, box.url, clock.nowMs, [...always, ...set]);
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
