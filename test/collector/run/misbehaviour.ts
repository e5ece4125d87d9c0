import { paging, passing, unreadable } from './misbehaviour-answers.ts';
import { silentPaging } from './misbehaviour-paging.ts';
import { harmless, partly, unusable } from './misbehaviour-ticks.ts';
import type { Script, Tick } from './scripted-service.ts';

// Misbehaviours of an upstream and their results, as a table. The tests check each row, and docs/BAD-INPUT.md is generated
// from `does` and `happens`.

export type Ticks = readonly Tick[];

export interface Misbehaviour {
  /** What the upstream does. */
  readonly does: string;
  /** The result, in words. */
  readonly happens: string;
  readonly ticks: NonNullable<Script['ticks']>;
  /** Affects every symbol, so that the row has its own night. */
  readonly isAlone?: true;
  /** Reason of each failure of the symbol; absent: no failure. */
  readonly fails?: RegExp;
  /** The service answered for the symbol, so that it counts as done although windows failed. */
  readonly isAnswered?: true;
  /** Distinct reasons of quarantined input, in order; absent: none. */
  readonly setAside?: readonly string[];
  /** The first quarantined element. */
  readonly raw?: string | RegExp;
  /** A warning of the run. */
  readonly warns?: RegExp;
  /** Published ticks since the previous night; absent: all of them. */
  readonly keeps?: 'a part' | ((truth: Ticks) => Ticks);
  /** End of the coverage since the previous night; absent: up to this night. */
  readonly covers?: 'nothing' | 'a part' | ((nightMs: number) => number);
  /** The evidence is `inferred`, and ticks may be missing until the next night. */
  readonly isInferred?: true;
  /** Whether the symbol needs several requests. */
  readonly isRetried?: true;
  /** What restores the true ticks afterwards; absent: the next night. */
  readonly heals?: 'forced backfill';
}

export const misbehaviours: readonly Misbehaviour[] = [
  ...unusable,
  ...partly,
  ...harmless,
  ...unreadable,
  ...passing,
  ...paging,
  ...silentPaging,
];
