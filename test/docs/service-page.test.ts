import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { paths } from '../../src/contract/paths.ts';
import { textOf } from './blocks.ts';
import { project } from './kept-current.ts';

const text = textOf('docs/SERVICE.md');

test('every link of docs/SERVICE.md leads somewhere, and every route stands there', () => {
  for (const [, target] of text.matchAll(/\]\(([^)#]+)/g))
    expect(existsSync(join(project, 'docs', target!)), target).toBe(true);
  for (const path of Object.values(paths))
    expect(text).toMatch(new RegExp(`[\`/ ,]${path.replace(/^.*\/(?=.)/, '/?')}\\b`));
});
