import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { isFull, openDatabase } from '../../../src/archive/journal/database.ts';
import { exitCodes, OddslakeError } from '../../../src/base/errors.ts';

const megabytes = { blocks: 1000, bsize: 4096, bavail: 500, files: 100, ffree: 50 };
const isFullWith = (changed: Partial<typeof megabytes>): boolean => isFull({ ...megabytes, ...changed });

test('detects a disk without space for a log page or a file, unless it reports neither', () => {
  expect([isFullWith({}), isFullWith({ bavail: 0 }), isFullWith({ bavail: 7 }), isFullWith({ bavail: 8 })]).toEqual([
    false,
    true,
    true,
    false,
  ]);
  expect([isFullWith({ ffree: 0 }), isFullWith({ files: 0, ffree: 0 }), isFullWith({ blocks: 0, bavail: 0 })]).toEqual([
    true,
    false,
    false,
  ]);
});

/** A connection that fails where the system makes it fail. */
class Failing extends DatabaseSync {
  override exec(sql: string): void {
    if (sql.startsWith('create'))
      throw Object.assign(new Error('disk I/O error'), { code: 'ERR_SQLITE_ERROR', errcode: 778 });
    super.exec(sql);
  }
}

function failureAt(folder: string): OddslakeError {
  const db = openDatabase(join(folder, 'state.sqlite'), 0, (path) => new Failing(path));
  try {
    db.script('create table t (a)');
  } catch (error) {
    return error as OddslakeError;
  } finally {
    db.close();
  }
  throw new Error('it went through');
}

test('reports an I/O error as a disk failure if there is space', () => {
  const folder = mkdtempSync(join(tmpdir(), 'oddslake-room-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  expect(failureAt(folder).message).toMatch(/^The disk failed: .*state\.sqlite .*disk I\/O error/);
});

test('reports an I/O error as a full disk if there is no space', (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'oddslake-full-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=400k', 'oddslake-test', folder], { stdio: 'pipe' });
  } catch {
    return context.skip('a tmpfs cannot be mounted here');
  }
  onTestFinished(() => void execFileSync('umount', ['-l', folder], { stdio: 'pipe' }));
  openDatabase(join(folder, 'state.sqlite'), 0).close();
  const { bavail, bsize } = statfsSync(folder);
  // Leaves just enough space to open it.
  appendFileSync(join(folder, 'ballast'), new Uint8Array((bavail - 8) * bsize));
  const error = failureAt(folder);
  expect(error).toBeInstanceOf(OddslakeError);
  expect(error.exitCode).toBe(exitCodes.unexpected);
  expect(error.message).toMatch(/^The disk is full: .*state\.sqlite could not grow\. Free some space and run again/);
});
