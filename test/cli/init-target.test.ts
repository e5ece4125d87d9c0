import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import {
  createDisk,
  type Disk,
  type FileSystemCalls,
  systemCalls,
  systemDisk,
} from '../../src/archive/disk/file-system.ts';
import { archiveExists, openArchive } from '../../src/archive/open-archive.ts';
import { writeConfig } from '../../src/cli/init-config.ts';

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'oddslake-place-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

const text = 'upstream:\n  base_url: https://box.test\n';

function init(disk: Disk, at: string): boolean {
  return writeConfig(disk, join(at, 'oddslake.yaml'), text, () => {
    const root = join(at, 'lake');
    const isNew = !archiveExists(root, disk);
    const upstream = 'https://box.test';
    openArchive({ root, create: true, upstream, parts: 2, writer: 'test', settleMs: 0 }, disk).close();
    return isNew;
  });
}

/** A disk of a process that is killed before its n-th change: later changes have no effect. */
function dying(at: number): { disk: Disk; changes: () => number } {
  let changes = 0;
  const calls = Object.fromEntries(
    Object.entries(systemCalls).map(([name, call]) => [
      name,
      (...args: unknown[]) => {
        if (name === 'close') return (call as (...given: unknown[]) => unknown)(...args);
        changes++;
        if (changes >= at) throw new Error('killed');
        return (call as (...given: unknown[]) => unknown)(...args);
      },
    ]),
  ) as unknown as FileSystemCalls;
  return { disk: createDisk(calls), changes: () => changes };
}

test('init can be repeated after it was killed at any point', () => {
  const calm = dying(Number.POSITIVE_INFINITY);
  const undisturbed = folder();
  expect(init(calm.disk, undisturbed)).toBe(true);
  const left = readdirSync(undisturbed).sort();
  expect(left).toEqual(['lake', 'oddslake.yaml']);
  let refused = 0;
  for (let at = 1; at <= calm.changes(); at++) {
    const place = folder();
    expect(() => init(dying(at).disk, place), `killed at ${at}`).toThrow();
    if (readdirSync(place).includes('oddslake.yaml')) {
      expect(archiveExists(join(place, 'lake'), systemDisk), `killed at ${at}`).toBe(true);
      expect(() => init(systemDisk, place)).toThrow(/already exists/);
      refused++;
    } else init(systemDisk, place);
    expect(readFileSync(join(place, 'oddslake.yaml'), 'utf8'), `killed at ${at}`).toBe(text);
    expect(readdirSync(place).sort(), `killed at ${at}`).toEqual(left);
  }
  // Only if just the cleanup was left.
  expect(refused).toBeLessThanOrEqual(3);
});

test('keeps an existing file, and leaves nothing behind if the archive cannot be created', () => {
  const at = folder();
  const file = join(at, 'oddslake.yaml');
  const broken = (): never => {
    throw new Error('no archive');
  };
  expect(() => writeConfig(systemDisk, file, text, broken)).toThrow('no archive');
  expect(readdirSync(at)).toEqual([]);
  writeFileSync(file, 'mine');
  expect(() => writeConfig(systemDisk, file, text, () => null)).toThrow(/already exists/);
  expect([readFileSync(file, 'utf8'), readdirSync(at)]).toEqual(['mine', ['oddslake.yaml']]);
});

test('reports a full disk and leaves nothing behind', () => {
  const at = folder();
  const write = (): never => {
    throw Object.assign(new Error('no space'), { code: 'ENOSPC' });
  };
  expect(() => writeConfig(createDisk({ ...systemCalls, write }), join(at, 'a.yaml'), text, () => null)).toThrow(
    expect.objectContaining({ exitCode: 1, message: expect.stringContaining('The disk is full') }),
  );
  expect(readdirSync(at)).toEqual([]);
});

test('works on a file system without hard links', () => {
  const at = folder();
  const link = (): never => {
    throw Object.assign(new Error('no links'), { code: 'EPERM' });
  };
  expect(writeConfig(createDisk({ ...systemCalls, link }), join(at, 'a.yaml'), text, () => 7)).toBe(7);
  expect([readFileSync(join(at, 'a.yaml'), 'utf8'), readdirSync(at)]).toEqual([text, ['a.yaml']]);
});
