import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { paths } from '../../src/contract/paths.ts';
import { readPage } from './blocks.ts';
import { project } from './kept-current.ts';

const text = readPage('docs/SERVICE.md');

test('docs/SERVICE.md lists every route, and its links have targets', () => {
  for (const [, target] of text.matchAll(/\]\(([^)#]+)/g))
    expect(existsSync(join(project, 'docs', target!)), target).toBe(true);
  for (const path of Object.values(paths))
    expect(text).toMatch(new RegExp(`[\`/ ,]${path.replace(/^.*\/(?=.)/, '/?')}\\b`));
});
