import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { access, type Ended, fixedNow, jobArgs, type Running, start } from '../e2e/lake.ts';
import { limitMs, until } from '../harness/limits.ts';
import { scratchRoot } from '../harness/scratch-root.ts';
import type { CallKind, HaltHow, HaltReport } from './kill-hook.ts';

// The real program in processes of its own, with the hook in it that can kill it, and a clock that stands where the
// sandbox's does.

const hook = new URL('./kill-hook.ts', import.meta.url).href;
/** So far behind the machine's clock the program's is: by it, the tests began when the sandbox's time is. */
const clockBackMs = Date.now() - fixedNow;

export const hookedNow = (): number => Date.now() - clockBackMs;

/** A folder that goes with the test, in memory where the system has such a place: what SIGKILL leaves is the same. */
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

/** Flags by which one small archive is like the other, and every run makes its requests in the same order. */
const settled = ['upstream.concurrency=1', 'source.first_lookback_days=2'].flatMap((set) => ['--set', set]);

/** The arguments of a job on an archive. */
export const hookedJob = (name: string, archive: string, ...flags: string[]): string[] =>
  jobArgs(name, archive, ...settled, ...flags);

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

/** Runs the program, killed at this call or left alone. `report`: a file for what the hook has to say. */
export async function runHooked(
  args: readonly string[],
  url: string,
  report: string,
  kill?: Halt,
): Promise<Ended & HaltReport> {
  rmSync(report, { force: true });
  const ended = await startHooked(args, url, { HALT_REPORT: report, ...(kill && haltAt(kill)) }).ended;
  // Not spread: the summary is read when it is asked for, and a process that was killed has none.
  return Object.assign(ended, reportIn(report));
}

/** The environment of a process that is halted there. */
export const haltAt = ({ of, at, how }: Halt): Record<string, string> => ({
  HALT_OF: of,
  HALT_AT: String(at),
  HALT_HOW: how,
});

const reportIn = (path: string): HaltReport => JSON.parse(readFileSync(path, 'utf8')) as HaltReport;

/** Starts the program and waits until it is stopped at this call, or over. */
export async function startStopped(
  args: readonly string[],
  url: string,
  report: string,
  stop: Halt,
): Promise<Running & HaltReport> {
  rmSync(report, { force: true });
  const running = startHooked(args, url, { HALT_REPORT: report, HALT_SIGNAL: 'SIGSTOP', ...haltAt(stop) });
  await until(() => existsSync(report) || isOver(running), 'the call at which it is stopped');
  return { ...running, ...reportIn(report) };
}

export const isOver = ({ child }: Running): boolean => child.exitCode !== null || child.signalCode !== null;
