import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

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

test('help loads neither plotting nor computing modules', () => {
  const loaded = loadedWith('src/cli/main.ts');
  expect([...loaded]).toEqual(expect.arrayContaining(['commander', 'src/cli/commands/backtest.ts']));
  const packages = [...loaded].filter((name) => !name.startsWith('src/') && !name.startsWith('node:'));
  expect(packages).toEqual(['commander']);
  expect([...loaded]).not.toContain('src/backtest/backtest-spec.ts');
});

test('only pages load the plotting library', () => {
  expect([...loadedWith('src/report/backtest-page.ts')]).toContain('@observablehq/plot');
  expect([...loadedWith('src/cli/format-backtest.ts')]).not.toContain('@observablehq/plot');
});
