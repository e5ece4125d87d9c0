import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { build } from '../../../bin/bundle.ts';
import { loadAssets } from '../../../src/server/web/catalogue.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { importsOf } from '../../structure.ts';

const root = new URL('../../..', import.meta.url).pathname;

test('the package contains the files that a checkout serves, and they import no others', async () => {
  const folder = scratchFolder();
  await build(folder);
  const { files } = loadAssets();
  const made = ['uplot.js', 'uplot.css', 'common.css', 'catalogue.css'];
  const names = readdirSync(join(folder, 'client'));
  expect(names.sort()).toEqual([...files.keys()].filter((name) => !made.includes(name)).sort());
  for (const name of names) {
    const bytes = readFileSync(join(folder, 'client', name));
    expect([name, bytes.equals(files.get(name)!.bytes)]).toEqual([name, true]);
    if (name.endsWith('.js'))
      expect(importsOf(bytes.toString()).filter((path) => !files.has(path.replace('./', '')))).toEqual([]);
  }
  expect(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).files).toContain('dist');
});
