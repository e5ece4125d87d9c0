import type { Database } from './database.ts';
import { evidenceSinceKey, getMeta, setMeta } from './meta.ts';

// What is remembered from run to run to judge how far coverage is proven.

/** The oldest tick that the service ever showed, epoch ms; infinite before the first: an empty response about what is older proves nothing. */
export const readOldestShown = (db: Database): number =>
  Number(getMeta(db, 'oldest_tick_shown') ?? Number.POSITIVE_INFINITY);

/** Remembers the oldest tick of a run, epoch ms, where it is older than what is known. */
export function recordOldestShown(db: Database, t: number): void {
  if (t < readOldestShown(db)) setMeta(db, 'oldest_tick_shown', String(t));
}

/** Windows that were fetched before this moment, epoch ms, are of an older format: a poll confirms nothing of them. */
export const readEvidenceSince = (db: Database): number => Number(getMeta(db, evidenceSinceKey) ?? 0);

/** What the last run inferred of the sizes of pages; nothing where none did. */
export function readKnownPages<Known extends object>(db: Database): Partial<Known> {
  const text = getMeta(db, 'known_pages');
  if (text === undefined) return {};
  return JSON.parse(text, (_, value) => (value === 'infinite' ? Number.POSITIVE_INFINITY : value)) as Partial<Known>;
}

/** Remembers what a run inferred of the sizes of pages; null forgets it. */
export function recordKnownPages(db: Database, known: object | null): void {
  const text = JSON.stringify(known ?? {}, (_, value) => (value === Number.POSITIVE_INFINITY ? 'infinite' : value));
  if (text !== getMeta(db, 'known_pages')) setMeta(db, 'known_pages', text);
}
