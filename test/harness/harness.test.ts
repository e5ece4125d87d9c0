import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isTimeLimit, MachineTooSlow, waitFor } from './limits.ts';
import { needsCommands, needsPath, skipWithReason } from './needs.ts';
import { requireNode } from './node-version.ts';
import setup, { runFolders, runVariable } from './run-folder.ts';
import { scratchRoot } from './scratch-root.ts';

test('waiting returns the result, or names what did not happen', async () => {
  let looks = 0;
  expect(await waitFor(() => (++looks < 3 ? undefined : 0), 'a third look')).toBe(0);
  const timeout = await waitFor(() => false, 'the word', 10).catch((error: Error) => error);
  expect(timeout).toBeInstanceOf(MachineTooSlow);
  expect((timeout as Error).message).toMatch(/^machine too slow, or a hang: the word was not seen within 0\.01 s$/);
});

test.each([
  [new MachineTooSlow('x', 1000).message, true],
  ['Test timed out in 20000ms.\nIf this is a long-running test…', true],
  ['Hook timed out in 5000ms.', true],
  ['expected 1 to be 2', false],
  ['expected "timed out" to be "done"', false],
])('of time limits: %s is %s', (message, is) => {
  expect(isTimeLimit(message)).toBe(is);
});

test('a missing requirement of a test is named', () => {
  expect(skipWithReason(null)).toEqual({});
  expect(needsCommands('sh')).toEqual({});
  expect(needsCommands('sh', 'no-such-command')).toEqual({
    skip: true,
    meta: { missing: 'no-such-command is not installed' },
  });
  expect(needsPath('/', 'no root')).toEqual({});
  expect(needsPath('/no/such/path', 'no such path')).toMatchObject({ meta: { missing: 'no such path' } });
});

test.each(['v20.20.2', 'v22.0.0', 'v8.1.0'])('Node %s is rejected with advice', (version) => {
  expect(() => requireNode(version)).toThrow(/need Node 24 or newer; this is v\d.*make test.*\.node\/bin/);
});

test('Node 24 and newer are accepted', () => {
  for (const version of ['v24.0.0', 'v25.1.0', process.version]) requireNode(version);
});

test('temporary files of a run are in its own folders', () => {
  const { memory, disk } = runFolders(process.env[runVariable]!);
  expect([tmpdir(), scratchRoot]).toEqual([disk, memory]);
  expect(mkdtempSync(join(tmpdir(), 'x-'))).toContain(disk);
});

/** Number of processes with a text in their arguments, or in their environment. */
const procs = (text: string, file: 'cmdline' | 'environ' = 'cmdline'): number =>
  globSync(`/proc/[0-9]*/${file}`).filter((path) => {
    try {
      return readFileSync(path, 'utf8').includes(text);
    } catch {
      return false;
    }
  }).length;

test('the next run removes the processes and folders of a killed run and keeps those of others', async () => {
  // The process ID of a finished process.
  const { pid: dead } = spawnSync('true');
  const folders = Object.values(runFolders(dead));
  for (const path of folders) {
    mkdirSync(join(path, 'archive'), { recursive: true });
    writeFileSync(join(path, 'archive/part'), 'x');
  }
  // What the test of a full disk has mounted, if this user may.
  spawnSync('mount', ['-t', 'tmpfs', 'tmpfs', join(folders[0]!, 'archive')]);
  // Each is a child of a shell that waits for it, because the cleanup skips direct children of this process.
  const waiting = (command: string, env: Record<string, string> = {}) =>
    spawn('sh', ['-c', `${command} & wait`], { stdio: 'ignore', env: { ...process.env, ...env } });
  const marked = waiting('sleep 600', { [runVariable]: `${dead}` });
  const inFolder = waiting(`sh -c 'sleep 600; :' ${folders[0]}/archive`);
  const other = waiting('sleep 600');
  const exits = Promise.all([once(marked, 'exit'), once(inFolder, 'exit')]);
  if (existsSync('/proc/self')) {
    await waitFor(() => procs(folders[0]!) > 1, 'the process that names the folder');
    // The shell and its child: before, the cleanup would miss them, and they live for ten minutes.
    await waitFor(() => procs(`${runVariable}=${dead}\0`, 'environ') > 1, 'the processes of the killed run');
  }
  const teardown = setup();
  if (existsSync('/proc/self')) await exits;
  expect(folders.filter((path) => existsSync(path))).toEqual([]);
  expect([other.exitCode, other.signalCode]).toEqual([null, null]);
  expect(Object.values(runFolders(process.env[runVariable]!)).every((path) => existsSync(path))).toBe(true);
  teardown();
  expect(Object.values(runFolders(process.pid)).filter((path) => existsSync(path))).toEqual([]);
  for (const child of [marked, inFolder, other]) child.kill('SIGKILL');
});
