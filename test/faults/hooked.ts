import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { access, type Ended, fixedNow, jobArgs, type Running, start } from '../e2e/lake.ts';
import { limitMs, waitFor } from '../harness/limits.ts';
import { scratchRoot } from '../harness/scratch-root.ts';
import type { CallKind, HaltHow, HaltReport } from './kill-hook.ts';

// The real program in separate processes, with a hook that can kill it and a clock at the sandbox's time.

const hook = new URL('./kill-hook.ts', import.meta.url).href;
/** How far the program's clock is behind the machine's: with it, the tests begin at the sandbox's time. */
const clockBackMs = Date.now() - fixedNow;

/** A folder that is deleted after the test, in memory if possible: SIGKILL leaves the same files there. */
export function scratch(): string {
  const path = mkdtempSync(join(scratchRoot, 'oddslake-faults-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

export interface Halt {
  readonly of: CallKind;
  readonly at: number;
  readonly how: HaltHow;
}

/** Flags that make small archives alike and every run send its requests in the same order. */
const fixedFlags = ['upstream.concurrency=1', 'source.first_lookback_days=2'].flatMap((set) => ['--set', set]);

/** The arguments of a job on an archive. */
export const hookedJob = (name: string, archive: string, ...flags: string[]): string[] =>
  jobArgs(name, archive, ...fixedFlags, ...flags);

/** Milliseconds after which a process counts as hanging: many run at once, and some are stopped meanwhile. */
export const hangMs = limitMs / 2;

export function startHooked(
  args: readonly string[],
  url: string,
  more: Readonly<Record<string, string>> = {},
): Running {
  const env = { ...access(url), NODE_OPTIONS: `--import=${hook}`, CLOCK_BACK: String(clockBackMs), ...more };
  return start(args, env, undefined, hangMs);
}

/** Runs the program, killed at this call or undisturbed. `report`: file for the hook's output. */
export async function runHooked(
  args: readonly string[],
  url: string,
  report: string,
  kill?: Halt,
): Promise<Ended & HaltReport> {
  rmSync(report, { force: true });
  const ended = await startHooked(args, url, { HALT_REPORT: report, ...(kill && haltAt(kill)) }).ended;
  // No object spread: the summary is parsed on access, and a killed process has none.
  return Object.assign(ended, reportIn(report));
}

/** Environment of a process that halts at this call. */
export const haltAt = ({ of, at, how }: Halt): Record<string, string> => ({
  HALT_OF: of,
  HALT_AT: String(at),
  HALT_HOW: how,
});

const reportIn = (path: string): HaltReport => JSON.parse(readFileSync(path, 'utf8')) as HaltReport;

/** Starts the program and waits until it is stopped at this call or has exited. */
export async function startStopped(
  args: readonly string[],
  url: string,
  report: string,
  stop: Halt,
): Promise<Running & HaltReport> {
  rmSync(report, { force: true });
  const running = startHooked(args, url, { HALT_REPORT: report, HALT_SIGNAL: 'SIGSTOP', ...haltAt(stop) });
  await waitFor(() => existsSync(report) || isOver(running), 'the call at which it is stopped');
  return { ...running, ...reportIn(report) };
}

export const isOver = ({ child }: Running): boolean => child.exitCode !== null || child.signalCode !== null;
