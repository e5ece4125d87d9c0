import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { countJournaledTicks } from '../../src/archive/journal/journal-rows.ts';
import { flip } from './damaged.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  market,
  now,
  opened,
  pathOfSymbol,
  publishedTicks,
  publishNow,
  scratchFolder,
} from './scratch.ts';

const symbols = ['AAA', 'BBB', 'CCC', 'DDD', 'EEE', 'FFF'];

const pathOf = (symbol: string, day = day0): string =>
  toDayPath('ticks', day, Math.floor((symbols.indexOf(symbol) * 4 + 2) / 6));

/** Two days of six symbols, published. */
async function filled(root: string): Promise<Archive> {
  const archive = opened({ root });
  for (const symbol of symbols)
    append(
      archive,
      answer(symbol, [
        [day0 + 1, 0.1],
        [day0 + dayMs + 1, 0.2],
      ]),
    );
  const polled = { runId: 'run', observedAt: now, markets: symbols.map((symbol) => market(symbol)) };
  appendMarkets(archive.state, polled, []);
  await publishNow(archive);
  return archive;
}

describe('damaged candles', () => {
  test.each(['damaged', 'missing'])('that are %s are rebuilt as soon as their day is merged again', async (how) => {
    const root = scratchFolder();
    const archive = await filled(root);
    const path = pathOfSymbol(archive, 'candles_1h', 'AAA');
    if (how === 'damaged') flip(join(root, path));
    else rmSync(join(root, path));
    expect((await verifyArchive(archive, null)).findings).toHaveLength(1);
    append(archive, answer('AAA', [[day0 + 1, 0.1]]));
    await publishNow(archive);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
  });
});

describe('a damaged part', () => {
  test('is left where it is, keeps its journal, and holds up no other part', async () => {
    const root = scratchFolder();
    const archive = await filled(root);
    const bad = join(root, pathOf('AAA'));
    const good = symbols.find((symbol) => pathOf(symbol) !== pathOf('AAA'))!;
    flip(bad);
    const damaged = readFileSync(bad);
    append(
      archive,
      answer('AAA', [[day0 + 2, 0.5]]),
      answer(good, [
        [day0 + 2, 0.5],
        [day0 + dayMs + 2, 0.6],
      ]),
    );
    append(archive, answer('AAA', [[day0 + dayMs + 2, 0.7]]));
    const { refused, manifest } = await publishNow(archive);
    expect(refused).toEqual([expect.stringContaining(`${pathOf('AAA')} is damaged`)]);
    expect(readFileSync(bad)).toEqual(damaged);
    expect(countJournaledTicks(archive.state.db)).toBe(1);
    expect(manifest.generation).toBe(2);
    flip(bad);
    const reported = publishedTicks(root).filter((line) => / 0\.[567]$/.test(line));
    expect(reported.sort()).toEqual(
      [`${good} ${day0 + 2} 0.5`, `${good} ${day0 + dayMs + 2} 0.6`, `AAA ${day0 + dayMs + 2} 0.7`].sort(),
    );
    // Now that it is whole again, what waited is taken in.
    expect((await publishNow(archive)).refused).toEqual([]);
    expect(publishedTicks(root)).toContain(`AAA ${day0 + 2} 0.5`);
    expect(countJournaledTicks(archive.state.db)).toBe(0);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
  });

  test.each(['coverage', 'markets'] as const)(
    'of %s keeps what is journaled for its day, and no other day',
    async (dataset) => {
      const root = scratchFolder();
      const archive = await filled(root);
      const day = dataset === 'markets' ? now - (now % dayMs) : day0;
      flip(join(root, dataset === 'markets' ? toDayPath(dataset, day, 0) : pathOfSymbol(archive, dataset, 'AAA', day)));
      append(
        archive,
        answer('AAA', [
          [day0 + 2, 0.5],
          [day0 + dayMs + 2, 0.6],
        ]),
      );
      const markets = [market('AAA', { isActive: false })];
      appendMarkets(archive.state, { runId: 'run', observedAt: now + 1, markets }, []);
      const { refused } = await publishNow(archive);
      expect(refused).toHaveLength(1);
      expect(refused[0]).toContain(dataset);
      expect(publishedTicks(root)).toContain(`AAA ${day0 + dayMs + 2} 0.6`);
      expect(publishedTicks(root).includes(`AAA ${day0 + 2} 0.5`)).toBe(dataset === 'markets');
      const waiting = archive.state.db.one<{ n: number }>('select count(*) as n from journal_markets')!.n;
      expect(waiting).toBe(dataset === 'markets' ? 1 : 0);
    },
  );

  test('that is missing is named as missing, and nothing is merged into a new one', async () => {
    const root = scratchFolder();
    const archive = await filled(root);
    rmSync(join(root, pathOf('AAA')));
    append(archive, answer('AAA', [[day0 + 2, 0.5]]));
    const { refused } = await publishNow(archive);
    expect(refused).toEqual([`${pathOf('AAA')} is missing, although the manifest lists it.`]);
    expect(existsSync(join(root, pathOf('AAA')))).toBe(false);
  });
});

describe('verify', () => {
  const spoilings: [string, (root: string) => void, { path: string; kind: string }][] = [
    ['a flipped bit', (root) => flip(join(root, pathOf('AAA'))), { path: pathOf('AAA'), kind: 'checksum mismatch' }],
    [
      'a truncated file',
      (root) => truncateSync(join(root, pathOf('AAA')), 100),
      { path: pathOf('AAA'), kind: 'checksum mismatch' },
    ],
    ['a missing file', (root) => rmSync(join(root, pathOf('AAA'))), { path: pathOf('AAA'), kind: 'missing' }],
    [
      'a file too many',
      (root) => writeFileSync(join(root, 'ticks/date=2026-06-01/copy.parquet'), 'PAR1'),
      { path: 'ticks/date=2026-06-01/copy.parquet', kind: 'orphan' },
    ],
    [
      'a part under another name',
      (root) => renameSync(join(root, pathOf('AAA')), join(root, 'ticks/x.parquet')),
      { path: 'ticks/x.parquet', kind: 'orphan' },
    ],
    [
      'a flipped bit in the symbols',
      (root) => flip(join(root, 'symbols/part-00.parquet')),
      { path: 'symbols/part-00.parquet', kind: 'checksum mismatch' },
    ],
    [
      'a changed row count in manifest.json',
      (root) => change(join(root, 'manifest.json'), '"rows": 1,', '"rows": 7,'),
      { path: 'manifest.json', kind: 'checksum mismatch' },
    ],
    [
      'a changed watermark in manifest.json',
      (root) => change(join(root, 'manifest.json'), '"watermark": null', '"watermark": 1'),
      { path: 'manifest.json', kind: 'checksum mismatch' },
    ],
    [
      'a line less in SHA256SUMS',
      (root) => change(join(root, 'SHA256SUMS'), /^.*\n/, ''),
      { path: 'SHA256SUMS', kind: 'checksum mismatch' },
    ],
    ['no SHA256SUMS', (root) => rmSync(join(root, 'SHA256SUMS')), { path: 'SHA256SUMS', kind: 'missing' }],
  ];

  test.each(spoilings)('finds %s', async (_, spoil, finding) => {
    const root = scratchFolder();
    const archive = await filled(root);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
    spoil(root);
    expect((await verifyArchive(archive, null)).findings).toContainEqual(finding);
  });

  test('speaks of the generation of the last publish, whatever an edited manifest calls itself', async () => {
    const root = scratchFolder();
    const archive = await filled(root);
    change(join(root, 'manifest.json'), '"generation": 1,\n "created_at"', '"generation": 7,\n "created_at"');
    const again = opened({ root });
    expect([archive.readManifest().generation, again.readManifest().generation]).toEqual([1, 7]);
    // Also by a process that had read the manifest before it was edited.
    for (const one of [archive, again])
      expect(await verifyArchive(one, null)).toMatchObject({
        generation: 1,
        findings: [{ path: 'manifest.json', kind: 'checksum mismatch' }],
      });
  });

  test('of a manifest that is no JSON any more says so, with exit code 6', async () => {
    const root = scratchFolder();
    const archive = await filled(root);
    truncateSync(join(root, 'manifest.json'), 99);
    await expect(verifyArchive(archive, null)).rejects.toMatchObject({
      exitCode: 6,
      message: expect.stringContaining('not valid JSON'),
    });
    archive.close();
    expect(() => opened({ root })).toThrow(expect.objectContaining({ exitCode: 6 }));
  });

  test('takes a publish that is half carried out for what it is: no damage', async () => {
    const root = scratchFolder();
    const archive = await filled(root);
    append(archive, answer('AAA', [[day0 + 2, 0.5]]), answer('BBB', [[day0 + 2, 0.5]]));
    let left = 4;
    const rename = (from: string, to: string): void => {
      if (left-- === 0) throw new Error('cut');
      archive.disk.rename(from, to);
    };
    await expect(publishNow({ ...archive, disk: { ...archive.disk, rename } })).rejects.toThrow('cut');
    expect(archive.readManifest().generation).toBe(2);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
  });

  test('follows a file that a publish moves to its place under its eyes', async () => {
    const root = scratchFolder();
    const archive = await filled(root);
    append(archive, answer('AAA', [[day0 + 2, 0.5]]));
    const stuck = { ...archive.disk, rename: () => expect.fail('cut') };
    await expect(publishNow({ ...archive, disk: stuck })).rejects.toThrow('cut');
    const read = (path: string): Uint8Array => {
      const place = join(root, /\/staging\/2\/\w+\/(.*)/.exec(path)?.[1] ?? '');
      if (path.includes('/staging/') && existsSync(path)) archive.disk.rename(path, place);
      return archive.disk.read(path);
    };
    expect((await verifyArchive({ ...archive, disk: { ...archive.disk, read } }, null)).findings).toEqual([]);
  });
});

test('sha256sum -c agrees with SHA256SUMS, and notices a flipped bit', async () => {
  const root = scratchFolder();
  await filled(root);
  const check = (): string =>
    execFileSync('sha256sum', ['-c', '--quiet', 'SHA256SUMS'], { cwd: root, stdio: 'pipe' }).toString();
  expect(check()).toBe('');
  flip(join(root, pathOf('AAA')));
  expect(check).toThrow();
});

function change(path: string, from: string | RegExp, to: string): void {
  const text = readFileSync(path, 'utf8');
  expect(text.replace(from, to)).not.toBe(text);
  writeFileSync(path, text.replace(from, to));
}
