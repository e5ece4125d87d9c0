import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import type { Manifest } from '../../src/archive/format/manifest.ts';
import { readPublishedCoverage, readSymbolCoverage } from '../../src/archive/journal/coverage-store.ts';
import { markLostReported, readCoverageWithoutLost, readLostWindows } from '../../src/archive/journal/gap-records.ts';
import { readAllSymbols } from '../../src/archive/journal/symbol-store.ts';
import { intersect, union } from '../../src/base/window.ts';
import { covered, fetched, hours, lost, pairsIn, withLosses } from './losses.ts';
import { answer, append, hourMs, now, opened, publishedTicks, publishNow, scratchFolder } from './scratch.ts';

const manifestOf = (root: string): Manifest =>
  JSON.parse(readFileSync(join(root, 'manifest.json'), 'utf8')) as Manifest;

test('a response with fewer ticks is merged without covering the window', async () => {
  const archive = opened();
  const { root } = archive.layout;
  const lostWindow = hours(6, 8);
  await withLosses(archive, 'A', [lostWindow]);
  append(
    archive,
    fetched('A', hours(0, 24), (t) => t < lostWindow.from || t >= lostWindow.to || t % hourMs === 0),
  );
  // A journaled response proves nothing yet, but need not be fetched again.
  expect(intersect(readCoverageWithoutLost(archive.state.db, 'A'), [lostWindow])).toEqual([]);
  expect(intersect(readSymbolCoverage(archive.state.db, 'A'), [lostWindow])).toEqual([lostWindow]);
  const { lacking } = await publishNow(archive);
  expect(lacking).toMatchObject([{ symbol: 'A', ...lostWindow, ticks: 12 }]);
  expect(publishedTicks(root).length).toBe(pairsIn(hours(0, 24)).length - 10);
  expect(covered(root)).toEqual([hours(0, 6), hours(8, 24)]);
  expect(union(readPublishedCoverage(archive.state.db, 'A'))).toEqual([hours(0, 6), hours(8, 24)]);
  expect(readLostWindows(archive.state.db)).toMatchObject([{ ...lostWindow, ticks: 12, reportedAt: null }]);
  expect(manifestOf(root)).toMatchObject({
    days: { '2026-06-01': { state: 'complete_with_exceptions', covered: 0, missing: ['A'], exceptions: 1 } },
    lost: [{ dataset: 'ticks', symbol: 'A', ...lostWindow, ticks: 12 }],
  });
});

test('the same response restores a window byte for byte, and clears the loss', async () => {
  const whole = opened();
  append(whole, answer('A', pairsIn(hours(0, 24)), { windows: [hours(0, 24)], requestedWindow: hours(0, 24) }));
  await publishNow(whole);
  const archive = opened();
  await withLosses(archive, 'A', [hours(6, 8), hours(8, 9)]);
  append(archive, fetched('A', hours(8, 9)), fetched('A', hours(5, 7)), fetched('A', hours(7, 8)));
  expect((await publishNow(archive)).lacking).toEqual([]);
  expect(publishedTicks(archive.layout.root)).toEqual(publishedTicks(whole.layout.root));
  const sums = ({ layout }: Archive) => manifestOf(layout.root).datasets.ticks.files.map((file) => file.sha256);
  expect(sums(archive)).toEqual(sums(whole));
  expect(covered(archive.layout.root)).toEqual([hours(0, 24)]);
  expect(readLostWindows(archive.state.db)).toEqual([]);
  expect(manifestOf(archive.layout.root)).toEqual(expect.not.objectContaining({ lost: expect.anything() }));
  expect(manifestOf(archive.layout.root).days['2026-06-01']).toMatchObject({
    state: 'complete',
    covered: 1,
    exceptions: 0,
  });
  expect(readAllSymbols(archive.state.db)[0]!.ticks).toBe(publishedTicks(archive.layout.root).length);
});

test('counts ticks that came back in pieces, and covers the window once all are back', async () => {
  const archive = opened();
  await withLosses(archive, 'A', [hours(6, 8)]);
  for (const half of [hours(6, 7), hours(7, 8)]) {
    append(archive, fetched('A', half));
    expect((await publishNow(archive)).lacking).toEqual([]);
    expect(readLostWindows(archive.state.db).length).toBe(1);
  }
  append(archive, answer('A', [], { windows: [hours(6, 8)], requestedWindow: hours(6, 8) }));
  await publishNow(archive);
  expect(readLostWindows(archive.state.db)).toEqual([]);
  expect(covered(archive.layout.root)).toEqual([hours(0, 24)]);
});

test('an import cannot turn a loss into a quiet day either', async () => {
  const archive = opened();
  await withLosses(archive, 'A', [hours(6, 8)]);
  append(
    archive,
    answer('A', [], { windows: [hours(0, 24)], requestedWindow: hours(0, 24), origin: 'import', rank: 2 }),
  );
  await publishNow(archive);
  expect(covered(archive.layout.root)).toEqual([hours(0, 6), hours(8, 24)]);
});

test('a loss of one symbol does not hold up others of the same part', async () => {
  const archive = opened({ parts: 1 });
  await withLosses(archive, 'A', [hours(6, 8)]);
  append(
    archive,
    fetched('B', hours(0, 24)),
    fetched('A', hours(6, 8), () => false),
  );
  await publishNow(archive);
  expect(union(readPublishedCoverage(archive.state.db, 'B'))).toEqual([hours(0, 24)]);
  expect(manifestOf(archive.layout.root).days['2026-06-01']).toMatchObject({ expected: 2, covered: 1 });
});

test('a state filled from the published tree knows what is lost, and whether it was reported is forgotten with the state', async () => {
  const root = scratchFolder();
  const archive = opened({ root });
  await withLosses(archive, 'A', [hours(6, 8)]);
  append(archive, fetched('A', hours(24, 25)));
  await publishNow(archive);
  markLostReported(archive.state.db, readLostWindows(archive.state.db), now);
  expect(readLostWindows(archive.state.db)).toMatchObject([{ reportedAt: now }]);
  archive.close();
  rmSync(join(root, '.oddslake'), { recursive: true });
  const again = opened({ root });
  expect(readLostWindows(again.state.db)).toEqual([{ ...lost('A', hours(6, 8)), lostAt: now, reportedAt: null }]);
  append(again, answer('A', [], { windows: [hours(0, 24)], requestedWindow: hours(0, 24) }));
  await publishNow(again);
  expect(covered(root)).toEqual([hours(0, 6), hours(8, 25)]);
});

test('accepts a manifest without recorded losses', async () => {
  const root = scratchFolder();
  const archive = opened({ root });
  append(archive, fetched('A', hours(0, 24)));
  await publishNow(archive);
  archive.close();
  const text = readFileSync(join(root, 'manifest.json'), 'utf8');
  expect(JSON.parse(text)).not.toHaveProperty('lost');
  rmSync(join(root, '.oddslake'), { recursive: true });
  writeFileSync(join(root, 'manifest.json'), text);
  expect(readLostWindows(opened({ root }).state.db)).toEqual([]);
});

test('the README mentions losses only if there are any', async () => {
  const archive = opened();
  await withLosses(archive, 'A', [hours(6, 8)]);
  const readme = () => readFileSync(join(archive.layout.root, 'README.md'), 'utf8');
  expect(readme()).not.toContain('then lost');
  append(archive, fetched('A', hours(24, 25)));
  await publishNow(archive);
  expect(readme()).toContain('- Windows whose published ticks were lost: 1; `oddslake gaps` lists them.');
});
