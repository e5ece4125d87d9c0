import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadSettings } from '../../src/settings/load.ts';
import { readPage } from './blocks.ts';
import { project } from './kept-current.ts';

/** Rows of the page: where, the names before, the names now. */
const rows = [...readPage('docs/CHANGED-NAMES.md').matchAll(/^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$/gm)]
  .map(([, ...cells]) => cells.map((cell) => cell.trim()))
  .filter(([where]) => where !== 'where' && !where!.startsWith('---'));

const names = (cell: string): string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name!);

const pairs = (wanted: string): [string, string][] =>
  rows
    .filter(([where]) => where === wanted)
    .flatMap(([, before, now]) => {
      const [old, current] = [names(before!), names(now!)];
      expect(old.length).toBe(current.length);
      return old.map((name, i): [string, string] => [name, current[i]!]);
    });

describe('docs/CHANGED-NAMES.md', () => {
  test('lists settings and flags', () => {
    expect(pairs('settings').length).toBeGreaterThan(4);
    expect(pairs('flags of `sandbox`').length).toBeGreaterThan(6);
  });

  test.each(pairs('settings'))('names what the setting %s is called now: %s', async (before, now) => {
    await expect(loadSettings({ env: {}, cwd: '/', set: [`${before}=1`] })).rejects.toThrow(
      `${before} was renamed to ${now}`,
    );
  });

  test('names flags that the command refuses with the new name', () => {
    for (const [before, now] of pairs('flags of `sandbox`')) {
      const args = [join(project, 'bin/main.ts'), 'sandbox', before, '1'];
      const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
      expect([status, stderr]).toEqual([2, expect.stringContaining(`${before} was renamed to ${now}`)]);
      const help = readPage('man/oddslake.1').replaceAll('\\-', '-');
      expect(help).toContain(now);
      expect(help).not.toContain(`${before} `);
    }
  });
});
