import { expect, test } from 'vitest';
import { openDatabase } from '../../../src/archive/journal/database.ts';
import { schemaVersion, schemaVersions } from '../../../src/archive/journal/schema.ts';
import { openState, toStateFilePath } from '../../../src/archive/journal/state.ts';
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

test.each([5, 6, 7])('a state of schema %i has the tables of a new one after its upgrade', (version) => {
  const [older, current] = [scratchFolder(), scratchFolder()];
  openState(older, identity).close();
  const db = openDatabase(toStateFilePath(older), 1000);
  turnStateBack(db, version);
  db.close();
  expect(listTables(older)).toEqual(listTables(current));
});
