import { floorToDay } from '../../base/window.ts';
import { type Database, getMeta, setMeta, toSourceKey } from './database.ts';
import { findLastListedDay, readDayLists } from './nightly-memory.ts';

/** What a poll found of the market list of a view, for the proof that the next one is whole. */
export interface ListCheck {
  /** When the sources apart named no further market, epoch ms; 0 if they have to be asked again. */
  readonly at: number;
  readonly markets: number;
  /** Hash of the members. */
  readonly members: string;
}

const checksKey = 'list_checks';

const readChecks = (db: Database, source: string | null): Readonly<Record<string, ListCheck>> =>
  JSON.parse(getMeta(db, toSourceKey(checksKey, source)) ?? '{}') as Record<string, ListCheck>;

/** Returns what is known of a view's list; null if its list of today is proven whole already. */
export function openListChecks(
  db: Database,
  source: string | null,
  nowMs: number,
): (view: string) => ListCheck | undefined | null {
  const checks = readChecks(db, source);
  const day = floorToDay(nowMs);
  const isListed = findLastListedDay(db, [source]) === day;
  return (view) => {
    const { isComplete, doubt } = readDayLists(db, [view], source)(day);
    return isListed && isComplete && doubt === null ? null : checks[view];
  };
}

export function recordListChecks(
  db: Database,
  lists: readonly { readonly view: string; readonly check: ListCheck | null }[],
  source: string | null,
): void {
  const checks = { ...readChecks(db, source) };
  for (const { view, check } of lists) if (check !== null) checks[view] = check;
  setMeta(db, toSourceKey(checksKey, source), JSON.stringify(checks));
}
