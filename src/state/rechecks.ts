import { emptyRecheckMemory, type RecheckMemory } from '../core/rechecks.ts';
import type { Database } from './database.ts';
import { getMeta, setMeta } from './meta.ts';

const rechecksKey = 'rechecks';

/** What is remembered of rechecks from night to night; nothing before the first. */
export function readRechecks(db: Database): RecheckMemory {
  const text = getMeta(db, rechecksKey);
  return text === undefined
    ? emptyRecheckMemory
    : { ...emptyRecheckMemory, ...(JSON.parse(text) as Partial<RecheckMemory>) };
}

/** Changes what is remembered, in one transaction: another process may note what it found. */
export function updateRechecks(db: Database, change: (memory: RecheckMemory) => RecheckMemory): void {
  db.transaction(() => {
    const before = readRechecks(db);
    const after = change(before);
    if (after !== before) setMeta(db, rechecksKey, JSON.stringify(after));
  });
}
