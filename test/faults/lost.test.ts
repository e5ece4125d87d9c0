import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readPublishedCoverage } from '../../src/archive/journal/coverage-store.ts';
import { readLostWindows } from '../../src/archive/journal/gap-records.ts';
import { intersect, union } from '../../src/base/window.ts';
import { covered, fetched, hours, pairsIn, withLosses } from '../archive/losses.ts';
import { append, opened, publishedTicks, publishNow } from '../archive/scratch.ts';
import { scratchRoot } from '../harness/scratch-root.ts';
import { type Draw, drawFrom, search, searchMsMax } from './seeds.ts';

const symbol = 'A';

/** Some hours of the day, adjacent or not. */
function lossesOf(draw: Draw) {
  const edges = [...new Set(Array.from({ length: 2 + draw.below(7) }, () => draw.below(25)))].sort((a, b) => a - b);
  const windows = edges.slice(1).map((to, i) => hours(edges[i]!, to));
  const some = windows.filter(() => draw.chance(0.7));
  return some.length > 0 ? some : [hours(3, 4)];
}

async function trial(seed: number, root: string): Promise<void> {
  const draw = drawFrom(seed);
  const losses = lossesOf(draw);
  const archive = opened({ root, parts: 1 });
  const { db } = archive.state;
  await withLosses(archive, symbol, losses);
  const check = (): void => {
    const claims = union(readPublishedCoverage(db, symbol));
    expect(covered(root)).toEqual(claims);
    expect(intersect(claims, readLostWindows(db))).toEqual([]);
    expect(union([...claims, ...readLostWindows(db)])).toEqual([hours(0, 24)]);
    const present = publishedTicks(root).map((line) => Number(line.split(' ')[1]));
    for (const w of losses) {
      if (intersect(claims, [w]).length === 0) continue;
      expect(present.filter((t) => w.from <= t && t < w.to).length).toBe(pairsIn(w).length);
    }
  };
  for (let n = 1 + draw.below(8); n > 0; n--) {
    const from = draw.below(24);
    const every = draw.one([1, 1, 2, 5]);
    const window = hours(from, from + 1 + draw.below(24 - from));
    append(
      archive,
      fetched(symbol, window, (t) => (t / 600_000) % every === 0),
    );
    if (n > 1 && draw.chance(0.5)) continue;
    await publishNow(archive);
    check();
  }
  const cut = 1 + draw.below(23);
  append(archive, fetched(symbol, hours(cut, 24)), fetched(symbol, hours(0, cut)));
  await publishNow(archive);
  expect(readLostWindows(db)).toEqual([]);
  expect(covered(root)).toEqual([hours(0, 24)]);
  archive.close();
}

test('no lost window is covered with fewer ticks, and full responses restore all of them', {
  timeout: searchMsMax,
}, async () => {
  await search({ name: 'answers for lost windows', least: 60, share: 0.01 }, async (seed) => {
    const root = mkdtempSync(join(scratchRoot, 'oddslake-lost-'));
    try {
      await trial(seed, root);
    } finally {
      rmSync(root, { recursive: true, force: true });
    }
  });
});
