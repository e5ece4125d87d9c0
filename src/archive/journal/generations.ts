import { type Database, getMeta, setMeta } from './database.ts';

// The generations that an archive had, so that a copy of it elsewhere can be recognized as an earlier one of the same
// history. A manifest names only the one before it.

/** Generations that are remembered. Bounds the state: about 100 bytes each. */
const generationsMax = 10_000;

const keyPrefix = 'generation:';
/** The first text after all keys with the prefix. */
const keyEnd = 'generation;';

const toGenerationKey = (hash: string): string => `${keyPrefix}${hash}`;

/**
 * Records a generation as a descendant of the one that it was built on. Part of the transaction that commits it. Two
 * generations may have the same number: a repair commits that of the last publish again. Hashes are the SHA-256 of
 * manifest.json.
 * @param builtOn its hash is undefined if nothing was published before, or the state was rebuilt
 */
export function recordGeneration(
  db: Database,
  builtOn: { readonly generation: number; readonly hash: string | undefined },
  next: { readonly generation: number; readonly hash: string },
): void {
  const isKnown = builtOn.hash !== undefined && getMeta(db, toGenerationKey(builtOn.hash)) !== undefined;
  if (!isKnown) {
    // The state was rebuilt: no statement about the generations in between is possible.
    db.run('delete from meta where key >= ? and key < ?', keyPrefix, keyEnd);
    if (builtOn.hash !== undefined) setMeta(db, toGenerationKey(builtOn.hash), String(builtOn.generation));
  }
  setMeta(db, toGenerationKey(next.hash), String(next.generation));
  db.run(
    'delete from meta where key >= ? and key < ? and cast(value as integer) <= ?',
    keyPrefix,
    keyEnd,
    next.generation - generationsMax,
  );
}

/**
 * Whether this archive had a generation with this manifest. Null if that is unknown: the generation is older than what is
 * remembered, because the state was rebuilt or the archive was pulled.
 */
export function hasHadGeneration(db: Database, generation: number, hash: string): boolean | null {
  if (getMeta(db, toGenerationKey(hash)) !== undefined) return true;
  const { first } = db.one<{ first: number | null }>(
    'select min(cast(value as integer)) as first from meta where key >= ? and key < ?',
    keyPrefix,
    keyEnd,
  )!;
  return first !== null && first <= generation ? false : null;
}
