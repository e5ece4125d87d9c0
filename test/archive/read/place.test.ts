import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createDisk } from '../../../src/archive/disk/file-system.ts';
import { readLeaseId } from '../../../src/server/jobs/archive-lease.ts';
import { powerModel } from '../../faults/power-loss.ts';
import { apartDisk } from '../apart.ts';
import { opened } from '../scratch.ts';

test('the word of an archive that its maker died over is durable once it was read: a power cut makes no other of it', () => {
  const top = mkdtempSync(join(tmpdir(), 'oddslake-place-'));
  onTestFinished(() => rmSync(top, { recursive: true }));
  const root = join(top, 'archive');
  opened({ root, parts: 1 }).close();
  const power = powerModel(root);
  const { calls } = power;
  let isDead = false;
  const dying = createDisk({
    ...calls,
    link(from, to) {
      calls.link(from, to);
      isDead = true;
    },
    sync(file) {
      if (isDead) throw new Error('killed');
      calls.sync(file);
    },
  });
  const archive = opened({ root, parts: 1 });
  expect(() => readLeaseId({ ...archive, disk: dying }, () => 0.25)).toThrow('killed');
  const word = readLeaseId({ ...archive, disk: createDisk(calls) }, () => 0.75);
  archive.close();
  power.cut(`${root}.kept`, 'vanished');
  const after = opened({ root: `${root}.kept`, parts: 1 });
  expect(readLeaseId(after, () => 0.5)).toBe(word);
  after.close();
});

test('an archive whose exports are on another file system has a word, and keeps it', () => {
  const archive = opened({ parts: 1 });
  const { root } = archive.layout;
  const apart = { ...archive, disk: apartDisk([join(root, '.oddslake/exports')]) };
  const word = readLeaseId(apart, () => 0.25);
  expect(readLeaseId(apart, () => 0.75)).toBe(word);
  expect(readdirSync(join(root, '.oddslake/exports'))).toEqual(['place']);
  expect(readdirSync(join(root, '.oddslake')).filter((name) => name.startsWith('next-'))).toEqual([]);
});
