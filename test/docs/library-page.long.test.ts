import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';
import { folder } from '../e2e/lake.ts';
import { run } from '../e2e/run-program.ts';
import { findBlocks, readPage } from './blocks.ts';
import { project } from './kept-current.ts';

// test/package.sh runs the same examples with the package as npm installs it, and checks their types.

const examples = findBlocks(readPage('docs/LIBRARY.md'), 'ts');
const { exports } = JSON.parse(readPage('package.json')) as { exports: Record<string, { default: string } | string> };
const names = Object.keys(exports).filter((name) => name !== './package.json');

/** An example that imports the modules of this tree. */
const withSources = (example: string): string =>
  example.replaceAll(
    /'oddslake\/(\w+)'/g,
    (_, name: string) => `'${pathToFileURL(join(project, `src/library/${name}.ts`)).href}'`,
  );

describe('docs/LIBRARY.md', () => {
  test('has an example of every module that the package exports', () => {
    expect(names.length).toBe(4);
    for (const name of names)
      expect(
        examples.some((code) => code.includes(`'oddslake/${name.slice(2)}'`)),
        name,
      ).toBe(true);
  });

  test('has examples that run', async () => {
    const root = folder();
    const demo = await run(['demo', '--output', join(root, 'output/demo'), '--no-progress'], {}, root);
    expect(demo.code).toBe(0);
    for (const [i, example] of examples.entries()) {
      const path = join(root, `example-${i}.mts`);
      writeFileSync(path, withSources(example));
      const ended = spawnSync(process.execPath, ['--disable-warning=ExperimentalWarning', path], {
        cwd: root,
        encoding: 'utf8',
      });
      expect([ended.status, ended.stderr], example).toEqual([0, '']);
      expect(ended.stdout.trim(), example).not.toBe('');
    }
  });
});
