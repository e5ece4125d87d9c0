import { expect, test } from 'vitest';
import { formatBudget, type Profile, splitProfile } from '../../bench/budget.ts';

const frames = [
  ['(root)', ''],
  ['mergePart', 'file:///lake/src/archive/format/merge.ts'],
  ['set', ''],
  ['(garbage collector)', ''],
  ['writeTicks', 'file:///lake/src/archive/parquet/ticks-file.ts'],
  ['processChunkSync', 'node:zlib'],
  ['(idle)', ''],
  ['compileSourceTextModule', 'node:internal/modules/esm/utils'],
  ['emit', 'node:events'],
] as const;
/** 0 calls 1, 3, 4, 6, 7 and 8; 1 calls 2; 4 calls 5. */
const children: Readonly<Record<number, readonly number[]>> = { 0: [1, 3, 4, 6, 7, 8], 1: [2], 4: [5] };
const profile: Profile = {
  nodes: frames.map(([functionName, url], id) => ({
    id,
    callFrame: { functionName, url },
    children: children[id] ?? [],
  })),
  samples: [1, 2, 3, 4, 5, 6, 7, 8, 2],
  timeDeltas: [10, 20, 30, 40, 50, 60, 70, 80, 5],
};

test('a function of Node counts for its stage, or for the source that called it; idle time for none', () => {
  expect(Object.fromEntries(splitProfile(profile))).toEqual({
    merge: 35,
    'collect garbage': 30,
    'encode (the limit program: and compress)': 40,
    compress: 50,
    'load modules': 70,
    'all else': 80,
  });
});

test('the budget is per tick, beside the stages that the limit program has', () => {
  const text = formatBudget(1000, splitProfile(profile), {
    read: 1e3,
    decode: 2e3,
    merge: 3e3,
    encode: 4e3,
    write: 5e3,
  });
  expect(text).toContain('| merge | 35 | 3 |');
  expect(text).toContain('| compress | 50 | – |');
  expect(text).toContain('| decode | 0 | 2 |');
  expect(text).toContain('| total | 305 | 15 |');
});
