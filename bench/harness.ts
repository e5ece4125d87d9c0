import { rmSync } from 'node:fs';
import { type Accounting, type Command, CommandFailed, type Measured, measure } from './measure.ts';
import type { Timing } from './results.ts';
import { median, pairRatios, type Spread } from './statistics.ts';

export interface Contender {
  readonly name: string;
  readonly command: Command;
  /** A folder that it makes, gone before each run; null where it writes nothing. */
  readonly out: string | null;
  /** What each run needs besides, made once `out` is gone; its time does not count. */
  prepare?(): void;
}

/** What came of a contender: its runs in order, or why it has none that count: completes a sentence of its name. */
export type Outcome =
  | { readonly name: string; readonly runs: readonly Measured[] }
  | { readonly name: string; readonly failed: string };

export interface AlternateOptions {
  readonly accounting: Accounting;
  /** Counted runs of each, after one that is not. */
  readonly runs: number;
  /** Looks at what the uncounted runs wrote, before it is removed; a contender named in the answer takes no part, for that reason. */
  check?(standing: readonly Contender[]): Promise<ReadonlyMap<string, string>>;
  tell(line: string): void;
}

/**
 * Whole processes in turn, A B C A B C …: run i of one is the neighbour of run i of the others. One that fails is out of
 * all rounds from there on, its earlier runs with it, and says why.
 */
export async function alternate(contenders: readonly Contender[], options: AlternateOptions): Promise<Outcome[]> {
  const { accounting, runs, tell } = options;
  const failures = new Map<string, string>();
  const measured = new Map(contenders.map(({ name }): [string, Measured[]] => [name, []]));
  const standing = (): Contender[] => contenders.filter(({ name }) => !failures.has(name));
  const drop = (name: string, reason: string, told: string): void => {
    failures.set(name, reason);
    tell(`${name} ${reason}${told === '' ? '' : `:\n${told}`}`);
  };

  async function runOne({ name, command, out, ...one }: Contender): Promise<Measured | undefined> {
    clear(out);
    one.prepare?.();
    try {
      return await measure(command, accounting);
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error;
      drop(name, error.message, error.told);
      return undefined;
    }
  }

  try {
    for (const one of standing()) await runOne(one);
    for (const [name, reason] of (await options.check?.(standing())) ?? []) drop(name, reason, '');
    for (const { out } of contenders) clear(out);
    for (let round = 1; round <= runs; round++) {
      for (const one of standing()) {
        const run = await runOne(one);
        clear(one.out);
        if (run === undefined) continue;
        measured.get(one.name)!.push(run);
        tell(`round ${round} of ${runs}, ${one.name}: ${(run.wallMs / 1000).toFixed(3)} s`);
      }
    }
  } finally {
    for (const { out } of contenders) clear(out);
  }
  return contenders.map(({ name }) => {
    const failed = failures.get(name);
    return failed === undefined ? { name, runs: measured.get(name)! } : { name, failed };
  });
}

function clear(out: string | null): void {
  if (out !== null) rmSync(out, { recursive: true, force: true });
}

export const isMeasured = (outcome: Outcome): outcome is Extract<Outcome, { runs: unknown }> => 'runs' in outcome;

/** What the table of processes says of those that have runs. */
export const processTimings = (what: string, input: string, outcomes: readonly Outcome[]): Timing[] =>
  outcomes.filter(isMeasured).map(({ name, runs }) => ({
    what,
    input,
    name,
    medians: summarise(runs),
    runs: runs.length,
  }));

/** Medians over the runs of one contender; null where the machine does not tell. */
export function summarise(runs: readonly Measured[]): Measured {
  const over = (pick: (run: Measured) => number | null): number | null => {
    const values = runs.map(pick);
    return values.some((value) => value === null) ? null : median(values as number[]);
  };
  return {
    wallMs: median(runs.map(({ wallMs }) => wallMs)),
    cpuMs: over(({ cpuMs }) => cpuMs),
    peakMiB: over(({ peakMiB }) => peakMiB),
  };
}

/** How many times as fast `ours` is as `theirs`, round by round. */
export function timesAsFast(ours: readonly Measured[], theirs: readonly Measured[]): Spread {
  return pairRatios(
    theirs.map(({ wallMs }) => wallMs),
    ours.map(({ wallMs }) => wallMs),
  );
}
