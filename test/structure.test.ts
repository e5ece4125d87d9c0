import { existsSync, globSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { importsOf, leftOver, violations } from './structure.ts';

const root = new URL('..', import.meta.url).pathname;

test('the source keeps to the structure of ARCHITECTURE', () => {
  const paths = globSync('{src,jobs,bin}/**/*.ts', { cwd: root });
  expect(paths.length).toBeGreaterThan(10);
  expect(violations(new Map(paths.map((path) => [path, readFileSync(root + path, 'utf8')])))).toEqual([]);
});

test('every surface takes its verdict from the one judge, and nobody else computes one', () => {
  const read = (path: string): string[] => importsOf(readFileSync(root + path, 'utf8'));
  /** Where each surface asks: the judge, what brings its published verdict up to now, or one of those that do so. */
  const asks: Readonly<Record<string, string>> = {
    'src/archive/publish/staging.ts': 'archive/completeness/completeness.ts',
    'src/archive/read/status.ts': 'archive/completeness/completeness.ts',
    'src/archive/read/gaps.ts': 'archive/completeness/completeness.ts',
    'src/collector/steps/gaps-step.ts': 'archive/completeness/completeness.ts',
    'src/archive/read/archive-status.ts': 'contract/completeness-counts.ts',
    'src/doctor/archive.ts': 'contract/completeness-counts.ts',
    'src/report/data/report-data.ts': '../status.ts',
    'src/collector/run/run.ts': 'archive/read/archive-status.ts',
    'src/collector/schedule/health-checks.ts': 'archive/read/archive-status.ts',
    'src/server/health/readiness.ts': 'archive/read/archive-status.ts',
    'src/server/health/metrics.ts': 'archive/read/archive-status.ts',
  };
  for (const [path, specifier] of Object.entries(asks))
    expect(
      read(path).some((one) => one.endsWith(specifier)),
      `${path} asks ${specifier}`,
    ).toBe(true);
  // What only a judge needs is imported by the judge alone, and the state that it is given is put together in one place.
  const paths = globSync('{src,jobs}/**/*.ts', { cwd: root });
  const importers = (name: string): string[] =>
    paths.filter((path) => read(path).some((specifier) => specifier.endsWith(name)));
  expect(importers('/judge-symbol.ts')).toEqual(['src/archive/completeness/completeness.ts']);
  const asking = /import \{[^}]*\bjudge\b[^}]*\} from '[./]+core\/completeness\.ts'/;
  expect(paths.filter((path) => asking.test(readFileSync(root + path, 'utf8'))).sort()).toEqual(
    Object.keys(asks)
      .filter((path) => asks[path] === 'archive/completeness/completeness.ts')
      .sort(),
  );
});

test('every source is asked for by another', () => {
  const paths = globSync('{src,jobs,bin}/**/*.ts', { cwd: root });
  expect(leftOver(new Map(paths.map((path) => [path, readFileSync(root + path, 'utf8')])))).toEqual([]);
  const two = [
    ['src/a/b.ts', "openPool('./thread', import.meta.url)"],
    ['src/a/thread.ts', "import { c } from '../c.ts';"],
    ['src/c.ts', ''],
    ['bin/main.ts', "await import('../src/a/b.ts')"],
  ] as const;
  expect(leftOver(new Map(two))).toEqual([]);
  expect(leftOver(new Map(two.slice(1)))).toEqual(['src/a/thread.ts']);
});

test('every file in src, jobs and bin that a program reads is TypeScript or the launchers', () => {
  const others = globSync('{src,jobs,bin}/**/*.{js,mjs,cjs,mts,cts}', { cwd: root });
  expect(others).toEqual([]);
  expect(existsSync(`${root}bin/oddslake`)).toBe(true);
});

describe('the check of the structure', () => {
  const found = (path: string, text: string) => violations(new Map([[path, text]]));

  test.each([
    ['src/core/a.ts', "import { b } from './b.ts';"],
    ['src/state/a.ts', "import type { Window } from '../core/window.ts';"],
    [
      'src/ingest/a.ts',
      "import { State } from '../state/state.ts';\nimport type { U } from '../upstream/upstream.ts';",
    ],
    ['src/archive/repair/a.ts', "import { b } from '../verify/b.ts';"],
    ['src/archive/repair/a.ts', "import { b } from './b.ts';"],
    ['src/cli/a.ts', "const { openApp } = await import('../app/run.ts');"],
    ['jobs/a.ts', "import { log } from '../src/cli/log.ts';"],
    ['bin/main.ts', "import { nightly } from '../jobs/nightly.ts';"],
    ['src/state/a.ts', "import { DatabaseSync } from 'node:sqlite';"],
    ['src/settings/source.ts', 'export const env = process.env;'],
    ['src/base/system.ts', 'const now = Date.now();'],
    ['src/core/commonest.ts', 'export const date = new Date(0);'],
  ])('lets pass: %s %s', (path, text) => {
    expect(found(path, text)).toEqual([]);
  });

  test.each([
    ['src/core/a.ts', "import { b } from '../settings/load.ts';", 'against the direction'],
    ['src/core/a.ts', "import type { S } from '../settings/settings.ts';", 'against the direction'],
    ['src/core/a.ts', "export { b } from '../state/b.ts';", 'against the direction'],
    ['src/core/a.ts', "export * from '../state/b.ts';", 'against the direction'],
    ['src/core/a.ts', "import '../state/b.ts';", 'against the direction'],
    ['src/core/a.ts', "const b = await import('../state/b.ts');", 'against the direction'],
    ['src/core/a.ts', "type B = typeof import('../state/b.ts');", 'against the direction'],
    ['src/core/a.ts', "import {\n  a,\n  b,\n} from '../system.ts';", 'against the direction'],
    ['src/core/a.ts', "new Worker(new URL('../state/w.ts', import.meta.url));", 'against the direction'],
    ['src/settings/a.ts', "import { b } from '../contract/b.ts';", 'against the direction'],
    ['src/archive/a.ts', "import { b } from './repair/b.ts';", 'a part above'],
    ['src/archive/verify/a.ts', "import { b } from '../repair/b.ts';", 'a part above'],
    ['src/archive/raw/a.ts', "import { b } from '../copies/b.ts';", 'a part above'],
    ['src/archive/elsewhere/a.ts', '', 'stands in no known room'],
    ['src/reading/files/a.ts', "import { b } from '../status.ts';", 'a part above'],
    ['src/query/a.ts', "import { b } from '../archive/b.ts';", 'against the direction'],
    ['src/collector/run/job.ts', "import { b } from '../cli/log.ts';", 'against the direction'],
    ['src/cli/a.ts', "import { b } from '../../jobs/b.ts';", 'against the direction'],
    ['jobs/a.ts', "import { b } from '../bin/main.ts';", 'against the direction'],
    ['src/core/a.ts', "import { b } from '../../test/b.ts';", 'against the direction'],
    ['src/archive/a.ts', "import { DatabaseSync } from 'node:sqlite';", 'only src/state may'],
    ['src/query/a.ts', "import { Table } from 'apache-arrow/Arrow.node';", 'only src/archive may'],
    ['jobs/a.ts', "const w = await import('parquet-wasm');", 'only src/archive may'],
    ['src/app/a.ts', "const w = require('parquet-wasm');", 'only src/archive may'],
    ['src/app/a.ts', "const path = import.meta.resolve('apache-arrow');", 'only src/archive may'],
    ['src/service/a.ts', "import { DuckDBInstance } from '@duckdb/node-api';", 'only src/query may'],
    ['src/ingest/a.ts', "import PQueue from 'p-queue';", 'only src/upstream may'],
    ['src/cli/a.ts', "import { request } from 'undici';", 'only src/upstream may'],
    ['src/service/a.ts', "import * as Plot from '@observablehq/plot';", 'only src/report may'],
    ['src/cli/a.ts', 'if (process.env.CI) quiet();', 'only src/settings may'],
    ['src/state/a.ts', 'const now = Date.now();', 'only src/base/system.ts may'],
    ['jobs/a.ts', 'const seed = Math.random();', 'only src/base/system.ts may'],
    ['src/utils/a.ts', '', 'says nothing'],
    ['src/core/helpers.ts', '', 'says nothing'],
    ['src/core/common/a.ts', '', 'says nothing'],
    ['src/misc/a.ts', '', 'stands in no known room'],
    ['src/core/a.ts', 'a\n'.repeat(401), 'has 401 lines'],
  ])('finds: %s %j %s', (path, text, breach) => {
    expect(found(path, text)).toContainEqual(expect.stringMatching(`^${path}.*${breach}`));
  });

  test('reads every way to name another file, and no text that only looks like one', () => {
    const text = `import a from './a.ts';
import * as b from "./b.ts";
import { type C,
  d } from './c.ts';
export type { E } from './e.ts';
export const said = "it came from 'there'";
function important(from: string) { return from + './f.ts'; }
const g = import('./g.ts');`;
    expect(importsOf(text).sort()).toEqual(['./a.ts', './b.ts', './c.ts', './e.ts', './g.ts']);
  });
});
