import { rmSync } from 'node:fs';
import type { Bench } from './bench.ts';
import { type Accounting, type Command, CommandFailed, type Measured, measure } from './measure.ts';
import { publishedTotals } from './published.ts';
import { type Comparison, countText, type Report, type Timing } from './results.ts';
import { median, pairRatios, type Spread, spread } from './statistics.ts';

export interface Contender {
  readonly name: string;
  readonly command: Command;
  /** A folder that the program creates, deleted before each run; null if it writes nothing. */
  readonly out: string | null;
  /** Other input of a run, prepared after `out` is deleted. Not timed. */
  prepare?(): void;
  /** Counted runs at most: a program that is far slower than the others takes part in the first rounds only. */
  readonly runsMax?: number;
}

export const createContender = (
  { folder, env }: Pick<Bench, 'folder' | 'env'>,
  name: string,
  argv: Command['argv'],
  out: string | null = null,
): Contender => ({ name, out, command: { argv, cwd: folder, env } });

/**
 * The result of a contender: its runs in order, or why none counts. The reason completes a sentence that starts with
 * its name.
 */
export type Outcome =
  | { readonly name: string; readonly runs: readonly Measured[] }
  | { readonly name: string; readonly failed: string };

interface AlternateOptions {
  readonly accounting: Accounting;
  /** Counted runs per contender, after one warm-up run. */
  readonly runs: number;
  /** Every other round in the opposite order, so that no contender always follows the same one. */
  readonly turns?: boolean;
  /**
   * Checks the output of the warm-up runs before it is deleted. A contender named in the result is excluded for the
   * given reason.
   */
  check?(remaining: readonly Contender[]): Promise<ReadonlyMap<string, string>>;
  tell(line: string): void;
}

/**
 * Runs whole processes alternately, A B C A B C …, so that run i of one is next to run i of the others. A contender
 * that fails is excluded from then on, earlier runs included, with a reason.
 */
export async function alternate(contenders: readonly Contender[], options: AlternateOptions): Promise<Outcome[]> {
  const { accounting, runs, tell } = options;
  const failures = new Map<string, string>();
  const measured = new Map(contenders.map(({ name }): [string, Measured[]] => [name, []]));
  const remaining = (): Contender[] => contenders.filter(({ name }) => !failures.has(name));
  const drop = (name: string, reason: string, output: string): void => {
    failures.set(name, reason);
    tell(`${name} ${reason}${output === '' ? '' : `:\n${output}`}`);
  };

  async function runOne({ name, command, out, ...one }: Contender): Promise<Measured | undefined> {
    removeOutputs(out);
    one.prepare?.();
    try {
      return await measure(command, accounting);
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error;
      drop(name, error.message, error.output);
      return undefined;
    }
  }

  try {
    for (const one of remaining()) await runOne(one);
    for (const [name, reason] of (await options.check?.(remaining())) ?? []) drop(name, reason, '');
    for (const { out } of contenders) removeOutputs(out);
    for (let round = 1; round <= runs; round++) {
      const order = remaining();
      for (const one of options.turns === true && round % 2 === 0 ? order.reverse() : order) {
        if (failures.has(one.name) || round > (one.runsMax ?? runs)) continue;
        const run = await runOne(one);
        removeOutputs(one.out);
        if (run === undefined) continue;
        measured.get(one.name)!.push(run);
        tell(`round ${round} of ${runs}, ${one.name}: ${(run.wallMs / 1000).toFixed(3)} s`);
      }
    }
  } finally {
    for (const { out } of contenders) removeOutputs(out);
  }
  return contenders.map(({ name }) => {
    const failed = failures.get(name);
    return failed === undefined ? { name, runs: measured.get(name)! } : { name, failed };
  });
}

function removeOutputs(out: string | null): void {
  if (out !== null) rmSync(out, { recursive: true, force: true });
}

export const isMeasured = (outcome: Outcome): outcome is Extract<Outcome, { runs: unknown }> => 'runs' in outcome;

/** Table rows of the contenders that have runs. */
export const processTimings = (label: string, input: string, outcomes: readonly Outcome[]): Timing[] =>
  outcomes.filter(isMeasured).map(({ name, runs }) => ({
    what: label,
    input,
    name,
    medians: summarise(runs),
    runs: runs.length,
  }));

/** Medians over the runs of one contender, null if the machine cannot measure them, and how far the runs differ. */
export function summarise(runs: readonly Measured[]): Measured & { readonly wallSpread: Spread } {
  const medianOf = (pick: (run: Measured) => number | null): number | null => {
    const values = runs.map(pick);
    return values.some((value) => value === null) ? null : median(values as number[]);
  };
  const wallSpread = spread(runs.map(({ wallMs }) => wallMs));
  return {
    wallMs: wallSpread.median,
    wallSpread,
    cpuMs: medianOf(({ cpuMs }) => cpuMs),
    peakMiB: medianOf(({ peakMiB }) => peakMiB),
  };
}

/** Speed of `ours` relative to `theirs`, in each round that both took part in. */
export function computeSpeedup(ours: readonly Measured[], theirs: readonly Measured[]): Spread {
  const rounds = Math.min(ours.length, theirs.length);
  const wall = (of: readonly Measured[]): number[] => of.slice(0, rounds).map(({ wallMs }) => wallMs);
  return pairRatios(wall(theirs), wall(ours));
}

/** How fast two programs, oddslake first, read the published files of an archive. @param missing why the second does not take part */
export async function compareReaders(
  bench: Bench,
  archive: string,
  contenders: readonly Contender[],
  { what, peer, missing, goal }: Pick<Comparison, 'what' | 'goal' | 'missing'> & { readonly peer: string },
): Promise<Report> {
  const outcomes = await alternate(contenders, bench);
  const { files, bytes } = publishedTotals(archive);
  const input = `${countText(files)} files, ${(bytes / 1e6).toFixed(0)} MB`;
  const [ours, theirs] = outcomes.map((outcome) => (isMeasured(outcome) ? outcome.runs : undefined));
  const speed = (runs: typeof ours): string => {
    const megabytes = runs === undefined ? null : bytes / 1000 / summarise(runs).wallMs;
    return megabytes === null ? '–' : `${megabytes.toFixed(megabytes < 100 ? 1 : 0)} MB/s`;
  };
  const ratio = ours !== undefined && theirs !== undefined ? computeSpeedup(ours, theirs) : null;
  const failed = outcomes.flatMap((outcome) => (isMeasured(outcome) ? [] : [outcome]));
  const comparison: Comparison = {
    what,
    input,
    ours: speed(ours),
    peer: { name: peer, figure: speed(theirs) },
    ratio,
    goal,
    value: ratio?.median ?? null,
    missing: failed.map(({ name, failed: reason }) => `${name} ${reason}`)[0] ?? missing,
  };
  return {
    failed: failed.map(({ name }) => name),
    comparisons: [comparison],
    timings: processTimings(what, input, outcomes),
  };
}
