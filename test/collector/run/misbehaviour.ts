import { paging, passing, unreadable } from './misbehaviour-answers.ts';
import { silentPaging } from './misbehaviour-paging.ts';
import { harmless, partly, unusable } from './misbehaviour-ticks.ts';
import type { Script, Tick } from './scripted-service.ts';

// What an upstream can do wrong and what becomes of it, as a table: the tests hold each row to what it says, and a
// document can be made of `does` and `happens`.

export type Ticks = readonly Tick[];

export interface Misbehaviour {
  /** What the upstream does. */
  readonly does: string;
  /** What becomes of it, for people. */
  readonly happens: string;
  readonly ticks: NonNullable<Script['ticks']>;
  /** Every symbol is served so: such a row has a night of its own. */
  readonly isAlone?: true;
  /** The reason of each failure of the symbol; without it there is none. */
  readonly fails?: RegExp;
  /** The symbol was asked for and has answered: it counts as done, though windows of it are failures. */
  readonly isAnswered?: true;
  /** Reasons of what is set aside, in order and each once; none where it is not given. */
  readonly setAside?: readonly string[];
  /** What the first element that was set aside looks like in the quarantine. */
  readonly raw?: string | RegExp;
  /** A warning of the run about it. */
  readonly warns?: RegExp;
  /** Of the truth since the night before, what is published after it; all of it where it is not given. */
  readonly keeps?: 'a part' | ((truth: Ticks) => Ticks);
  /** Up to where the time since the night before is covered; up to the night where it is not given. */
  readonly covers?: 'nothing' | 'a part' | ((nightMs: number) => number);
  /** What is covered counts as `inferred` alone, and may lack ticks until the next night. */
  readonly isInferred?: true;
  /** Requests of the symbol: more than one, as it is asked again. */
  readonly isRetried?: true;
  /** What brings the truth once the upstream is in order; the next night where it is not given. */
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
