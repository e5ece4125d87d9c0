import type { PeerName } from './peers.ts';

/**
 * What oddslake should reach, in one place. The goals of an import are set by its peers and by the limit program
 * (bench/limit), which does the least work that gives the same ticks: a program on Node that checks, hashes, syncs and
 * records coverage cannot be as fast as that.
 */

export interface Goal {
  readonly text: string;
  met(value: number): boolean;
}

export const atLeast = (times: number, text = `${times} ×`): Goal => ({ text, met: (value) => value >= times });
export const atMost = (share: number, text = `at most ${share}`): Goal => ({ text, met: (value) => value <= share });
export const under = (limit: number, unit: string): Goal => ({
  text: `under ${limit} ${unit}`,
  met: (value) => value < limit,
});
export const faster: Goal = { text: 'faster', met: (times) => times > 1 };
export const noSlower: Goal = atLeast(1, 'no slower');

/** A figure that is compared and judged by no goal. */
export const noGoal: Goal = { text: '–', met: () => true };
export const isJudged = ({ text }: Goal): boolean => text !== noGoal.text;

/** Speed of an import relative to each peer. */
export interface ImportGoals {
  readonly speed: Partial<Readonly<Record<PeerName, number>>>;
  /** Greatest time relative to the limit program's; undefined: not judged. */
  readonly limitTimes?: number;
}

export const importGoals: Readonly<Record<'1,000 pages' | '10,000 pages' | 'recording', ImportGoals>> = {
  '1,000 pages': { speed: { duckdb: 1.6 } },
  '10,000 pages': { speed: { duckdb: 4, polars: 3 }, limitTimes: 1.3 },
  recording: { speed: {} },
};
/** Bytes per tick relative to the smallest peer's. */
export const importBytes = atMost(0.88);
export const importMemory = under(512, 'MB');
/** Peak memory of the largest import relative to the smallest. */
export const importMemoryGrowth = atMost(1.5, 'at most 1.5 ×');

/** CPU time relative to DuckDB, which only removes duplicates and writes ticks, and peak memory, of 2 M symbol-days. */
export const thinImport = { cpu: atMost(8, 'at most 8 ×'), memory: under(512, 'MB') } as const;
/** Peak memory of a night without news of 20,000 live symbols. */
export const quietNight = under(300, 'MB');
/** CPU time without that of a night that fetches nothing. */
export const nightlyCpu = under(0.7, 'µs');
/** Duration of a night at 1,000 days relative to 10 days. */
export const growth = atMost(1.2);
/** CPU time and peak memory at 1,000,000 dead symbols relative to 1,000: of a night and a poll, and of `status`. */
export const deadSymbols = { run: atMost(1.5), status: atMost(2) } as const;

/** M ticks/s of two threads on 50 M ticks. */
export const backtests = {
  threshold: atLeast(40, '40 M ticks/s'),
  mean_reversion: atLeast(10, '10 M ticks/s'),
} as const;

/** CPU time of whole processes. */
export const startUp = {
  help: under(120, 'ms'),
  status: under(160, 'ms'),
  importOfOnePage: under(350, 'ms'),
} as const;
