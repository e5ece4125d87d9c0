import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { loadAssets } from '../../../src/server/web/catalogue.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { importsOf } from '../../structure.ts';

const root = new URL('../../..', import.meta.url).pathname;

test('the package contains the modules and files that a checkout serves', () => {
  const folder = scratchFolder();
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  execFileSync(process.execPath, [tsc, '-p', join(root, 'tsconfig.page.json'), '--outDir', folder]);
  const { files } = loadAssets();
  const served = [...files.keys()].filter((name) => !name.startsWith('uplot.'));
  expect(readdirSync(folder).sort()).toEqual(served.filter((name) => name.endsWith('.js')).sort());
  for (const name of readdirSync(folder)) {
    const built = importsOf(readFileSync(join(folder, name), 'utf8'));
    expect([name, importsOf(files.get(name)!.bytes.toString())]).toEqual([name, built]);
  }
  const { scripts, files: packed } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const endings = new Set(served.map((name) => name.split('.').at(-1)!).filter((ending) => ending !== 'js'));
  // The build copies the files that are not compiled.
  for (const ending of endings) expect(scripts.build).toContain(`client/*.${ending}`);
  expect(packed).toContain('dist');
});
