import { expect, test } from 'vitest';
import { addSegments, readEvidenceSince } from '../../../src/archive/journal/coverage-store.ts';
import { openDatabase } from '../../../src/archive/journal/database.ts';
import { schemaVersion, schemaVersions } from '../../../src/archive/journal/schema.ts';
import { openState, toStateFilePath } from '../../../src/archive/journal/state.ts';
import { dayMs } from '../../../src/base/window.ts';
import { turnStateBack } from '../older.ts';
import { scratchFolder } from '../scratch.ts';

const identity = { upstream: 'test', parts: 1 };

/** The names of the tables and indices of a state. */
function listTables(folder: string): unknown[] {
  const state = openState(folder, identity);
  try {
    return state.db.all('select type, name from sqlite_master order by type, name');
  } finally {
    state.close();
  }
}

test('the version of the schema is that of the last upgrade', () => {
  expect(schemaVersion).toBe(schemaVersions.length);
});

test.each([5, 6, 7, 8, 9])('a state of schema %i has the tables of a new one after its upgrade', (version) => {
  const [older, current] = [scratchFolder(), scratchFolder()];
  openState(older, identity).close();
  const db = openDatabase(toStateFilePath(older), 1000);
  turnStateBack(db, version);
  db.close();
  expect(listTables(older)).toEqual(listTables(current));
});

test('inferred windows that schema 8 may have joined are not confirmed by a poll', () => {
  const evidenceSinceAfterUpgrade = (windowEnds: readonly number[]): number => {
    const folder = scratchFolder();
    const older = openState(folder, identity);
    for (const to of windowEnds)
      addSegments(older.db, 'A', [{ from: to - 10, to, fetchedAt: to + 5, origin: 'poll', evidence: 'inferred' }], 0);
    turnStateBack(older.db, 8);
    older.close();
    const state = openState(folder, identity);
    try {
      return readEvidenceSince(state.db);
    } finally {
      state.close();
    }
  };
  expect(evidenceSinceAfterUpgrade([])).toBe(0);
  expect(evidenceSinceAfterUpgrade([100, 110])).toBe(0);
  expect(evidenceSinceAfterUpgrade([100, 110, 3 * dayMs])).toBe(116);
});
