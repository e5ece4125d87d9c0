import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { openDatabase } from '../../../src/archive/journal/database.ts';
import { openState } from '../../../src/archive/journal/state.ts';
import { scratchFolder } from '../scratch.ts';

/** https://sqlite.org/pragma.html#pragma_synchronous: in WAL mode only FULL syncs the log at every commit. */
const full = 2;

test('syncs the log at each commit on every connection of the state', () => {
  const folder = scratchFolder();
  const connections: DatabaseSync[] = [];
  const open = (path: string, busyMs: number) =>
    openDatabase(path, busyMs, (at) => {
      const db = new DatabaseSync(at);
      connections.push(db);
      return db;
    });
  const identity = { upstream: 'https://box.test' };
  // The first connection creates the file, the second opens it.
  const states = [openState(folder, identity, open), openState(folder, identity, open)];
  for (const db of connections) {
    expect(db.prepare('pragma synchronous').get()).toEqual({ synchronous: full });
    expect(db.prepare('pragma journal_mode').get()).toEqual({ journal_mode: 'wal' });
  }
  for (const state of states) state.close();
  expect(connections).toHaveLength(2);
});

test('a reader that ends early leaves no statement open', () => {
  const { db, close } = openState(scratchFolder(), { upstream: 'https://box.test' });
  for (const _ of db.iterate('select 1 union all select 2')) break;
  expect(() => db.script('pragma wal_checkpoint(truncate)')).not.toThrow();
  const failing = (): void => {
    for (const row of db.iterate('select name from sqlite_schema')) throw new Error(JSON.stringify(row));
  };
  expect(failing).toThrow('name');
  expect(() => db.script('pragma wal_checkpoint(truncate)')).not.toThrow();
  close();
});
