import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type Database, openDatabase } from '../../../src/archive/journal/database.ts';
import { schemaSql, schemaVersion } from '../../../src/archive/journal/schema.ts';
import { inspectState, openState, toStateFilePath } from '../../../src/archive/journal/state.ts';
import { UsageError } from '../../../src/base/errors.ts';
import { hashTree } from '../../harness/hash-tree.ts';
import { scratchFolder } from '../scratch.ts';

const identity = { upstream: 'test' };

test('each table of the state has a comment', () => {
  const lines = schemaSql.split('\n');
  const bare = lines.filter((line, i) => line.startsWith('create table') && !lines[i - 1]!.startsWith('--'));
  expect(bare).toEqual([]);
});

describe('a state of another schema is refused, and no byte of its folder changes,', () => {
  const setVersion = (db: Database, version: number): void =>
    void db.run("update meta set value = ? where key = 'schema_version'", version);

  const expectRefused = (folder: string): void => {
    const before = hashTree(folder);
    expect(() => openState(folder, identity)).toThrow(UsageError);
    expect(() => inspectState(folder)).toThrow(UsageError);
    expect(hashTree(folder)).toEqual(before);
  };

  test.each([1, schemaVersion - 1, schemaVersion + 1])('as one of schema %i', (version) => {
    const folder = scratchFolder();
    const { db } = openState(folder, identity);
    setVersion(db, version);
    db.close();
    expectRefused(folder);
  });

  test('also with the log files that an interrupted process left', () => {
    const [running, folder] = [scratchFolder(), scratchFolder()];
    const { db } = openState(running, identity);
    setVersion(db, schemaVersion - 1);
    db.close();
    const other = openDatabase(toStateFilePath(running), 1000);
    other.run("insert into meta values ('a', 'b')");
    cpSync(running, folder, { recursive: true });
    other.close();
    expect(Object.keys(hashTree(folder))).toContain('state.sqlite-wal');
    expectRefused(folder);
  });
});

test('a state without a version is damaged', () => {
  const folder = scratchFolder();
  const { db } = openState(folder, identity);
  db.run("delete from meta where key = 'schema_version'");
  db.close();
  expect(() => openState(folder, identity)).toThrow(`${join(folder, 'state.sqlite')} is not the state of an archive`);
});
