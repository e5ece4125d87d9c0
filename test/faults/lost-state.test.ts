import { cpSync, existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import type { CoveredWindow } from '../../src/archive/format/coverage.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { readAllPublishedCoverage } from '../../src/archive/journal/coverage-store.ts';
import { DamageError } from '../../src/base/errors.ts';
import { union } from '../../src/base/window.ts';
import { hashes, opened, publishedRows, publishedTicks, publishNow } from '../archive/scratch.ts';
import { fastScratch, journalDay } from './damage-lake.ts';
import { type Draw, drawFrom, search, searchMsMax } from './seeds.ts';

// .oddslake or one of its files is missing after a process was killed: the next command resumes from the published
// files, or says what to do.

/** What may be missing, of the files that a killed process leaves. */
const losses: Readonly<Record<string, readonly string[]>> = {
  'the private folder': ['.'],
  'the state': ['state.sqlite', 'state.sqlite-wal', 'state.sqlite-shm'],
  'the state but not its log': ['state.sqlite'],
  'the log of the state': ['state.sqlite-wal'],
  'the log and its index': ['state.sqlite-wal', 'state.sqlite-shm'],
  'the index of the log': ['state.sqlite-shm'],
  'the lock': ['lock.sqlite'],
  'the staging folder': ['staging'],
};

const days = [0, 1];
const roundsMax = 3;

/** Several polls and publishes, the last of which may be cut off, as if the process had been killed there. */
async function createHistory(root: string, draw: Draw): Promise<Archive> {
  const archive = opened({ root, parts: 2 });
  const steps = 1 + draw.below(roundsMax);
  for (let round = 0; round < steps; round++) {
    for (const day of days) if (draw.chance(0.8)) journalDay(archive, day, round);
    const fate = round < steps - 1 ? 'published' : draw.one(['published', 'cut off', 'journaled']);
    if (fate === 'published') await publishNow(archive);
    if (fate === 'cut off') await cutOff(archive, draw.below(40));
    if (draw.chance(0.3)) archive.state.db.script('pragma wal_checkpoint(truncate)');
  }
  return archive;
}

/** A publish whose process dies during a rename. */
async function cutOff(archive: Archive, after: number): Promise<void> {
  let renamesLeft = after;
  const rename = (from: string, to: string): void => {
    if (renamesLeft-- === 0) throw new Error('cut');
    archive.disk.rename(from, to);
  };
  await publishNow({ ...archive, disk: { ...archive.disk, rename } }).catch((error: Error) => {
    if (error.message !== 'cut') throw error;
  });
}

/** Journals everything again, as an upstream would send it. */
async function journalAgain(archive: Archive): Promise<void> {
  for (let round = 0; round < roundsMax; round++) for (const day of days) journalDay(archive, day, round);
  await publishNow(archive);
}

const readCovered = (archive: Archive): Record<string, unknown> =>
  Object.fromEntries(
    [...readAllPublishedCoverage(archive.state.db)].map(([symbol, list]: [string, CoveredWindow[]]) => [
      symbol,
      union(list),
    ]),
  );

test('after the state is lost, published ticks stay and the others come with the next responses', {
  timeout: searchMsMax,
}, async () => {
  const undisturbed = opened({ root: join(fastScratch(), 'calm'), parts: 2 });
  await journalAgain(undisturbed);
  const expected = publishedTicks(undisturbed.layout.root).sort();
  const seen = new Map<string, number>();
  const done = await search({ name: 'lost states', least: 80, share: 0.03 }, async (seed) => {
    const draw = drawFrom(seed);
    const folder = fastScratch();
    const [before, root] = [join(folder, 'before'), join(folder, 'after')];
    const killed = await createHistory(before, draw);
    const isCut = killed.state.db.one('select 1 from intents') !== undefined;
    cpSync(before, root, { recursive: true });
    const published = existsSync(join(root, 'manifest.json'));
    const [loss, names] = draw.one(Object.entries(losses));
    for (const name of names) rmSync(join(root, '.oddslake', name), { recursive: true, force: true });
    const label = `${loss} is gone, ${published ? 'published' : 'nothing published'}${isCut ? ', cut off' : ''}`;
    const note = (outcome: string): unknown =>
      seen.set(`${label}: ${outcome}`, (seen.get(`${label}: ${outcome}`) ?? 0) + 1);

    if (isCut && !published && !existsSync(join(root, '.oddslake/state.sqlite'))) {
      // A first publish that was cut off may have left files without a manifest.
      const isEmpty = readdirSync(root).every((name) => name === '.oddslake');
      if (!isEmpty)
        expect(() => opened({ root, parts: 2 }), label).toThrow(/holds other files .* and is not an archive/);
      note(isEmpty ? 'starts again' : 'is none yet, and stated so');
      killed.close();
      return;
    }
    let archive = opened({ root, parts: 2 });
    const files = hashes(root, 'ticks/**/*.parquet');
    let findings: readonly { path: string }[];
    try {
      await publishNow(archive);
      ({ findings } = await verifyArchive(archive, null));
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      // The state is older than the tree: the error says what to do, and doing it helps.
      expect(error.message, label).toMatch(/manifest\.json is not the one that the last publish wrote.*remove/);
      expect(
        (await verifyArchive(archive, null)).findings.map(({ path }) => path),
        label,
      ).toContain('manifest.json');
      archive.close();
      rmSync(join(root, '.oddslake'), { recursive: true });
      archive = opened({ root, parts: 2 });
      note('had to be removed');
      await publishNow(archive);
      ({ findings } = await verifyArchive(archive, null));
    }
    if (findings.length > 0) {
      // Files of a publish that can no longer be finished: each is reported and kept.
      expect(isCut, `${label}: ${JSON.stringify(findings)}`).toBe(true);
      if (loss !== 'the staging folder') expect(hashes(root, 'ticks/**/*.parquet'), label).toEqual(files);
      note('torn, with an error');
    } else {
      // Coverage in the state equals published coverage.
      const covered = Object.groupBy(
        publishedRows(root, 'coverage').filter(([dataset]) => dataset === 'ticks'),
        ([, symbol]) => symbol as string,
      );
      const windows = Object.entries(covered).map(([symbol, rows]) => [
        symbol,
        union(rows!.map(([, , from, to]) => ({ from: from as number, to: to as number }))),
      ]);
      expect(readCovered(archive), label).toEqual(Object.fromEntries(windows));
      await journalAgain(archive);
      expect(publishedTicks(root).sort(), label).toEqual(expected);
      expect((await verifyArchive(archive, null)).findings, label).toEqual([]);
      note('resumed');
    }
    archive.close();
    killed.close();
    rmSync(folder, { recursive: true });
  });
  console.log(
    [...seen]
      .sort()
      .map(([outcome, n]) => `${n} × ${outcome}`)
      .join('\n'),
  );
  // A search that has little time sees few of them.
  if (done >= 80) expect([...seen.keys()].filter((outcome) => outcome.endsWith('resumed')).length).toBeGreaterThan(8);
});

test('losses are of files that are there', () => {
  const root = fastScratch();
  opened({ root, parts: 2 });
  expect(readdirSync(join(root, '.oddslake'))).toEqual(expect.arrayContaining(['state.sqlite', 'state.sqlite-wal']));
});
