import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { cp, mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { root, withBreak } from './copy.ts';
import { judgeBreaks } from './judge-breaks.ts';
import { pagingBreaks } from './paging-breaks.ts';

test.for([...judgeBreaks, ...pagingBreaks])('the break applies: $name', async (one) => {
  const copy = mkdtempSync(join(tmpdir(), 'oddslake-break-'));
  try {
    for (const [file] of one.edits) {
      await mkdir(join(copy, dirname(file)), { recursive: true });
      await cp(join(root, file), join(copy, file));
    }
    const read = (): string[] => one.edits.map(([file]) => readFileSync(join(copy, file), 'utf8'));
    const before = read();
    expect(withBreak(one, copy, read)).not.toEqual(before);
    expect(read()).toEqual(before);
  } finally {
    rmSync(copy, { recursive: true });
  }
});

test('every folder that mutation testing names has sources and tests', () => {
  const folders = [...readFileSync(join(root, 'Makefile'), 'utf8').matchAll(/for room in ([a-z ]+);/g)].flatMap(
    ([, rooms]) => rooms!.split(' '),
  );
  expect(folders.length).toBeGreaterThan(1);
  for (const folder of folders)
    for (const pattern of [`src/${folder}/**/*.ts`, `test/${folder}/**/*.test.ts`])
      expect(globSync(pattern, { cwd: root }), pattern).not.toEqual([]);
});
