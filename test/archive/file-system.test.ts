import { existsSync, mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createDisk } from '../../src/archive/disk/file-system.ts';
import { openDatabase } from '../../src/archive/journal/database.ts';
import { takeSnapshot } from '../../src/archive/read/snapshot.ts';
import { faultDatabase } from '../faults/fault-database.ts';
import { faultCalls } from '../faults/fault-disk.ts';
import { startFaults } from '../faults/fault-points.ts';
import { powerModel } from '../faults/power-loss.ts';
import { answer, append, day0, opened, publishNow, scratchFolder } from './scratch.ts';

describe('a folder', () => {
  test('that a killed process left unsynced is durable before anything is put into it', () => {
    const root = scratchFolder();
    const power = powerModel(root);
    power.calls.makeFolder(join(root, 'day'));
    const disk = createDisk(power.calls);
    disk.makeFolder(join(root, 'day'));
    disk.write(join(root, 'day/part'), Buffer.from('ticks'));
    disk.syncFolder(join(root, 'day'));
    const after = join(scratchFolder(), 'after');
    power.cut(after, 'vanished');
    expect(existsSync(join(after, 'day/part'))).toBe(true);
  });

  test('with contents is not synced again', () => {
    const root = scratchFolder();
    mkdirSync(join(root, 'day/part'), { recursive: true });
    const faults = startFaults();
    const disk = createDisk(faultCalls(faults, powerModel(root).calls));
    disk.makeFolder(join(root, 'day'));
    expect(faults.calls).toEqual([]);
    disk.makeFolder(join(root, 'day/part'));
    expect(faults.calls).toEqual(['fsync day']);
  });
});

describe('a failing disk', () => {
  test.each([
    ['EIO', /^The disk failed: could not write .*file\. Check the disk and run again; no .* is lost\.$/],
    ['ENOSPC', /^The disk is full: could not write .*file\. Free some space and run again; no .* is lost\.$/],
  ] as const)('with %s is reported as such', (kind, sentence) => {
    const root = scratchFolder();
    const disk = createDisk(faultCalls(startFaults({ at: 2, kind }), powerModel(root).calls));
    const write = () => disk.write(join(root, 'file'), Buffer.from('ticks'));
    expect(write).toThrow(expect.objectContaining({ exitCode: 1, message: expect.stringMatching(sentence) }));
  });

  test('is reported below the state database', () => {
    const path = join(scratchFolder(), 'state.sqlite');
    openDatabase(path, 1000).close();
    const db = faultDatabase(startFaults({ at: 3, kind: 'EIO' }))(path, 1000);
    const message = expect.stringMatching(/^The disk failed: .*state\.sqlite could not be read or written \(disk I\/O/);
    expect(() => db.script('create table t (x)')).toThrow(expect.objectContaining({ exitCode: 1, message }));
    db.close();
  });

  test('at the end of a snapshot leaves nothing of it', async () => {
    const archive = opened();
    append(archive, answer('AAA', [[day0, 0.5]]));
    await publishNow(archive);
    const outside = scratchFolder();
    const counting = startFaults();
    const calls = powerModel(outside).calls;
    const take = (faults: typeof counting, name: string) =>
      takeSnapshot({ ...archive, disk: createDisk(faultCalls(faults, calls)) }, join(outside, name), { id: name });
    // The first one makes folders that the next ones find.
    await take(startFaults(), 'first');
    await take(counting, 'whole');
    const at = counting.calls.lastIndexOf(`fsync ${basename(outside)}`) + 1;
    await expect(take(startFaults({ at, kind: 'EIO' }), 'broken')).rejects.toThrow('The disk failed');
    expect(existsSync(join(outside, 'whole/manifest.json'))).toBe(true);
    expect(existsSync(join(outside, 'broken'))).toBe(false);
  });
});
