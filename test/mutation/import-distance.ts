import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';

// Which tests can see a file of src: those that import it, directly or through other files.

/** Imports, dynamic imports, and files that are started as threads or processes. */
const references = [
  /\bfrom '(\.{1,2}\/[^']+)'/g,
  /\bimport\('(\.{1,2}\/[^']+)'\)/g,
  /^import '(\.{1,2}\/[^']+)'/gm,
  /\bnew URL\('([^']+)', import\.meta\.url\)/g,
  /['"`/]((?:test|src|bin|jobs)\/[\w./-]+\.ts)\b/g,
];

/** Absolute paths of the files that a file refers to. */
function listReferences(root: string, file: string): string[] {
  const text = readFileSync(file, 'utf8');
  const paths = references
    .flatMap((pattern) => [...text.matchAll(pattern)].map(([, path]) => path!))
    .map((path) => (/^(?:test|src|bin|jobs)\//.test(path) ? join(root, path) : join(dirname(file), path)))
    .filter((path) => path.endsWith('.ts') && existsSync(path));
  // Tests that start the program name its file in parts.
  return text.includes('../../bin/') ? [...paths, join(root, 'bin/main.ts')] : paths;
}

/**
 * Test files from which `file` is reached, in the order in which they are likely to detect a fault of it: the test of the
 * same name, then by distance, with the tests of the same folder and quick ones first.
 */
export function listTestsByDistance(root: string, file: string): string[] {
  const importers = new Map<string, string[]>();
  for (const path of globSync('{src,bin,jobs,test,bench}/**/*.ts', { cwd: root, exclude: ['**/node_modules'] })) {
    const from = join(root, path);
    for (const to of new Set(listReferences(root, from))) importers.set(to, [...(importers.get(to) ?? []), from]);
  }
  const distances = new Map([[join(root, file), 0]]);
  for (const [path, distance] of distances)
    for (const importer of importers.get(path) ?? [])
      if (!distances.has(importer)) distances.set(importer, distance + 1);
  const folder = dirname(file).replace(/^src/, 'test');
  const name = basename(file, '.ts');
  const rank = (path: string, distance: number): number => {
    if (basename(path).startsWith(name)) return 0;
    const isNear = dirname(path) === folder || dirname(path) === dirname(folder);
    return distance + (isNear ? 0 : 2) + (/\.long\.test\.ts$|^test\/e2e\//.test(path) ? 2 : 0);
  };
  return [...distances]
    .map(([path, distance]): [string, number] => [relative(root, path), distance])
    .filter(([path]) => path.endsWith('.test.ts') && !/^test\/(?:faults|readers|clients|mutation)\//.test(path))
    .sort(([a, x], [b, y]) => rank(a, x) - rank(b, y))
    .map(([path]) => path);
}
