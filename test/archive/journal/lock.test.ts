import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { takeWriteLock } from '../../../src/archive/journal/lock.ts';
import { systemClock } from '../../../src/base/system.ts';
import { createLeapingClock } from '../../client/virtual-clock.ts';
import { scratchFolder } from '../scratch.ts';

/** Another process that holds the lock until it ends. */
async function startHolder(path: string) {
  const lock = new URL('../../../src/archive/journal/lock.ts', import.meta.url).href;
  const system = new URL('../../../src/base/system.ts', import.meta.url).href;
  const program = `
    const { takeWriteLock } = await import('${lock}');
    const { systemClock } = await import('${system}');
    await takeWriteLock(${JSON.stringify(path)}, 0, systemClock);
    console.log('held');
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  return child;
}

const busy = expect.objectContaining({ exitCode: 5, message: expect.stringContaining('Another run is still writing') });

describe('the write lock', () => {
  test('asks to remove a lock file that is something else', async () => {
    const path = join(scratchFolder(), 'lock.sqlite');
    writeFileSync(
      path,
      'something else, and longer than a header of SQLite would be, so that it is no database'.repeat(9),
    );
    const message = expect.stringMatching(/lock\.sqlite is damaged.*Remove it/);
    await expect(takeWriteLock(path, 0, systemClock)).rejects.toMatchObject({ exitCode: 6, message });
    rmSync(path);
    (await takeWriteLock(path, 0, systemClock)).release();
  });

  test('is refused on a read-only file, on which SQLite would give it to many processes', async () => {
    const folder = scratchFolder();
    const path = join(folder, 'lock.sqlite');
    writeFileSync(path, '');
    chmodSync(path, 0o444);
    chmodSync(folder, 0o555);
    onTestFinished(() => chmodSync(folder, 0o755));
    const lock = new URL('../../../src/archive/journal/lock.ts', import.meta.url).href;
    // Root may write in spite of the file mode.
    const program = `
      const { tryLock } = await import('${lock}');
      if (process.getuid() === 0) process.setuid(65534);
      for (const path of ${JSON.stringify([path, join(folder, 'new.sqlite')])})
        try { console.log(tryLock(path)); } catch (error) { console.log(error.name, error.message); }`;
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' });
    expect(stdout.trim().split('\n')).toEqual([
      `LockRefusedError Not allowed to take the lock ${path}. Check its owner and permissions.`,
      `LockRefusedError Not allowed to take the lock ${folder}/new.sqlite. Check its owner and permissions.`,
    ]);
  });

  test('is held by one process: the second waits, then fails with exit code 5', async () => {
    const path = join(scratchFolder(), 'lock.sqlite');
    const first = await takeWriteLock(path, 0, systemClock);
    const clock = createLeapingClock();
    await expect(takeWriteLock(path, 300, clock)).rejects.toEqual(busy);
    expect(clock.monotonicMs()).toBe(300);
    await expect(takeWriteLock(path, 0, systemClock, undefined, () => 'Try later.')).rejects.toThrow(
      /after 0 s \(.*\)\. Try later\.$/,
    );
    const waiting = takeWriteLock(path, 5_000, createLeapingClock({ onSleep: () => first.release() }));
    (await waiting).release();
  });

  test('is free as soon as its holder is killed', async () => {
    const path = join(scratchFolder(), 'lock.sqlite');
    const child = await startHolder(path);
    await expect(takeWriteLock(path, 0, systemClock)).rejects.toEqual(busy);
    child.kill('SIGKILL');
    await once(child, 'close');
    (await takeWriteLock(path, 0, systemClock)).release();
  });

  test('stays with a suspended holder, and is free when that is killed', async () => {
    const path = join(scratchFolder(), 'lock.sqlite');
    const child = await startHolder(path);
    child.kill('SIGSTOP');
    await expect(takeWriteLock(path, 400, createLeapingClock())).rejects.toEqual(busy);
    child.kill('SIGKILL');
    await once(child, 'close');
    (await takeWriteLock(path, 0, systemClock)).release();
  });

  test('is no longer waited for once the run is interrupted', async () => {
    const path = join(scratchFolder(), 'lock.sqlite');
    const first = await takeWriteLock(path, 0, systemClock);
    const stop = new AbortController();
    // It sleeps until the signal ends the wait.
    const onSleep = () => setImmediate(() => stop.abort(new Error('stopped')));
    const clock = createLeapingClock({ leapMsMax: 0, onSleep });
    await expect(takeWriteLock(path, 60_000, clock, stop.signal)).rejects.toThrow('stopped');
    first.release();
  });

  test('fails at once in a missing folder', async () => {
    await expect(takeWriteLock('/nonexistent/lock.sqlite', 60_000, systemClock)).rejects.toThrow(/unable to open/);
  });
});
