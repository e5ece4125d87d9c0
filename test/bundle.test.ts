import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';
import { entries } from '../bin/bundle.ts';

const root = join(import.meta.dirname, '..');

/** The sources that the package is built from, as text. */
const sources = globSync('{src,jobs}/**/*.ts', { cwd: root }).map((path) => ({
  path,
  text: readFileSync(join(root, path), 'utf8'),
}));

test('the package has each module that a thread runs, under its name', () => {
  const named = sources
    .filter(({ text }) => /\b(?:openWorkerPool|openMergeThreads|runInThread|ThreadEntry)\b/.test(text))
    .flatMap(({ text }) => [...text.matchAll(/'\.\/([\w-]+)'/g)].map(([, name]) => name!));
  const threads = Object.keys(entries).filter((name) => name !== 'main' && !name.startsWith('library-'));
  expect([...new Set(named)].sort()).toEqual(threads.sort());
  for (const name of threads) expect(basename(entries[name]!)).toBe(`${name}.ts`);
});

test('the package has each module that it exports', () => {
  const { exports: exported } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    exports: Record<string, string | { default: string; types: string }>;
  };
  const files = Object.values(exported).flatMap((one) => (typeof one === 'string' ? [] : [one]));
  const libraries = Object.entries(entries).filter(([name]) => name.startsWith('library-'));
  expect(files.sort((a, b) => (a.default < b.default ? -1 : 1))).toEqual(
    libraries.map(([name, path]) => ({
      types: `./dist/${path.replace(/\.ts$/, '.d.ts')}`,
      default: `./dist/program/${name}.js`,
    })),
  );
});

test('a path relative to a module leads from the root as in the folder of the built program', () => {
  // Modules three or more folders below the root may read only what is beside them, which the build copies.
  const reaching = sources.filter(({ text }) => /import\.meta\.(?:url|dirname)/.test(text) && /['"`]\.\.\//.test(text));
  const paths = sources.flatMap(({ path, text }) =>
    [...text.matchAll(/new URL\(\s*['"`](\.\.\/[^'"`]*)['"`],\s*import\.meta\.url/g)].map(([, to]) => ({
      path,
      to: to!,
    })),
  );
  expect(reaching.length).toBeGreaterThan(0);
  expect(paths.map(({ to }) => to)).not.toEqual([]);
  for (const { path, to } of paths) {
    expect(path.split('/').length, path).toBe(3);
    expect(to, path).toMatch(/^\.\.\/\.\.\/\w|^\.\.\/\.\.\/\.node|^\.\.\/\.\.\/\$/);
  }
});
