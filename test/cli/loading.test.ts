import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { expect, test } from 'vitest';
import { createProgram } from '../../src/cli/main.ts';
import type { JobLoaders } from '../../src/collector/job.ts';
import { program } from '../docs/program.ts';

const root = new URL('../../', import.meta.url);

/** Modules loaded with a file by static imports, transitively; packages by name. */
function loadedWith(path: string, seen = new Set<string>()): Set<string> {
  if (seen.has(path)) return seen;
  seen.add(path);
  const text = readFileSync(new URL(path, root), 'utf8');
  for (const [, type, specifier] of text.matchAll(/^(?:import|export) (type )?[^;'"]*?from '([^']+)';$/gm)) {
    if (type !== undefined) continue;
    if (specifier!.startsWith('.')) loadedWith(new URL(specifier!, `file:///${path}`).pathname.slice(1), seen);
    else seen.add(specifier!);
  }
  return seen;
}

test('help loads no module of a command, nor of what commands do', () => {
  const loaded = [...loadedWith('src/cli/main.ts')];
  const packages = loaded.filter((name) => !name.startsWith('src/') && !name.startsWith('node:'));
  expect(packages).toEqual(['commander']);
  expect(loaded).toContain('src/cli/command-list.ts');
  expect(loaded.filter((name) => name.startsWith('src/cli/commands/'))).toEqual([]);
});

test('the help is the same whether the commands are loaded or not', async () => {
  const jobs = {} as JobLoaders;
  const [none, some] = await Promise.all(
    [[], ['status']].map((names) => createProgram('0.0.0', jobs, () => {}, [], names)),
  );
  expect(none!.helpInformation()).toBe(program.helpInformation());
  expect(some!.helpInformation()).toBe(program.helpInformation());
  const find = (root: Command): Command => root.commands.find((command) => command.name() === 'status')!;
  expect(find(some!).helpInformation()).toBe(find(program).helpInformation());
  expect(find(none!).options).toEqual([]);
});

test('only pages load the plotting library', () => {
  expect([...loadedWith('src/report/backtest-page.ts')]).toContain('@observablehq/plot');
  expect([...loadedWith('src/cli/format-backtest.ts')]).not.toContain('@observablehq/plot');
});

test('a thread of a backtest does not load TypeBox', () => {
  const loaded = [...loadedWith('src/backtest/run/backtest-job-thread.ts')];
  expect(loaded).toContain('src/contract/strategy-language.ts');
  expect(loaded).not.toContain('typebox');
});
