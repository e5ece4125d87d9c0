import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { listPassedFiles, passedVariable } from './passed-files.ts';
import { scratchRoot } from './scratch-root.ts';

const project = new URL('../../', import.meta.url).pathname;
const vitest = join(project, 'node_modules/vitest/vitest.mjs');

/** A tree with test files, of which each has one passing test and these others, after a run of all. */
function runTests(files: Readonly<Record<string, string>>): string {
  const root = mkdtempSync(join(scratchRoot, 'oddslake-passed-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  mkdirSync(join(root, 'test/base'), { recursive: true });
  for (const [path, rest] of Object.entries(files))
    writeFileSync(join(root, path), `test('passes', () => {});\n${rest}\n`);
  const results = join(root, 'results.json');
  const flags = ['--globals', '--root', root, '--reporter=json', `--outputFile=${results}`];
  spawnSync(process.execPath, [vitest, 'run', ...flags], { cwd: root });
  return results;
}

test('only files of which every test passed are not repeated', () => {
  const results = runTests({
    'test/base/window.test.ts': "test('passes too', () => {});",
    'test/base/errors.test.ts': "test.skip('is skipped', () => {});",
    'test/base/partition.test.ts': "test('fails', () => expect(1).toBe(2));",
    'test/broken.test.ts': "throw new Error('not even loaded');",
  });
  expect(listPassedFiles(results)).toEqual({ files: ['test/base/window.test.ts'], tests: 2 });
  const list = (env: Record<string, string>): string[] =>
    spawnSync(process.execPath, [vitest, 'list', '--filesOnly', '--project', 'quick', 'test/base'], {
      cwd: project,
      encoding: 'utf8',
      env: { ...process.env, ...env },
    })
      .stdout.trim()
      .split('\n')
      .map((line) => /\S+\/(\S+)\.test\.ts/.exec(line)![1]!);
  const all = list({ [passedVariable]: '' });
  expect(all).toEqual(expect.arrayContaining(['errors', 'timetable', 'window']));
  expect(list({ [passedVariable]: results }).sort()).toEqual(all.filter((name) => name !== 'window').sort());
});

test('without results every file runs', () => {
  const none = { files: [], tests: 0 };
  expect([listPassedFiles(undefined), listPassedFiles('/no/such/results.json')]).toEqual([none, none]);
});

test('a file with tests left out for lack of PostgreSQL has passed only if the check leaves them out', () => {
  const results = runTests({
    'test/a.test.ts': "describe('over PostgreSQL', () => test.skip('x', () => {}));",
    'test/b.test.ts': "test('x', { skip: true, meta: { missing: 'no PostgreSQL' } }, () => {});",
    'test/c.test.ts': "test.skip('x', () => {});",
  });
  expect(listPassedFiles(results)).toEqual({ files: [], tests: 0 });
  expect(listPassedFiles(results, true)).toEqual({ files: ['test/a.test.ts', 'test/b.test.ts'], tests: 2 });
});
