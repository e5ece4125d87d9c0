import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type Archive, requirePublishedManifest } from '../../src/archive/archive.ts';
import { type Disk, systemDisk } from '../../src/archive/disk/file-system.ts';
import { formatVersion } from '../../src/archive/format/manifest.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { readSymbolCoverage } from '../../src/archive/journal/coverage-store.ts';
import { readAllSymbols, recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import { openArchive } from '../../src/archive/open-archive.ts';
import { recoverPublish } from '../../src/archive/publish/publish.ts';
import { acquireScratchFolder, pinGeneration } from '../../src/archive/read/pin-generation.ts';
import { locateFile } from '../../src/archive/read-published-file.ts';
import { systemClock } from '../../src/base/system.ts';
import { hashTree } from '../harness/hash-tree.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hashes,
  market,
  now,
  opened,
  pathOfSymbol,
  publishedTicks,
  publishNow,
  scratchFolder,
} from './scratch.ts';

const usage = (sentence: RegExp) => expect.objectContaining({ exitCode: 2, message: expect.stringMatching(sentence) });

test('an archive is closed at the end of the scope that opened it', () => {
  let leftOpen: Archive;
  {
    using archive = openArchive(
      { root: scratchFolder(), create: true, upstream: 'https://example.org', parts: 1, writer: 'test' },
      systemDisk,
    );
    leftOpen = archive;
    expect(leftOpen.state.generation()).toBe(0);
  }
  expect(() => leftOpen.state.generation()).toThrow('finalized');
});

describe('the manifest of an open archive', () => {
  test('is read once per generation, and again after another process has published', async () => {
    const root = scratchFolder();
    const other = opened({ root });
    append(other, answer('AAA', [[day0, 0.5]]));
    await publishNow(other);
    let reads = 0;
    const disk: Disk = {
      ...systemDisk,
      read(path) {
        if (basename(path) === 'manifest.json') reads++;
        return systemDisk.read(path);
      },
    };
    const archive = opened({ root, disk });
    const first = archive.readManifest();
    expect(archive.readManifest()).toBe(first);
    expect(reads).toBe(1);
    append(other, answer('AAA', [[day0 + 1, 0.6]]));
    await publishNow(other);
    const second = archive.readManifest();
    expect([second.generation, archive.readManifest()]).toEqual([2, second]);
    expect(second).toEqual(other.readManifest());
    expect(reads).toBe(2);
  });

  test('is that of its file if the state does not know its hash', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    append(archive, answer('AAA', [[day0, 0.5]]));
    await publishNow(archive);
    archive.close();
    const path = join(root, 'manifest.json');
    const edited = readFileSync(path, 'utf8').replace('"generation": 1', '"generation": 7');
    writeFileSync(path, edited);
    const again = opened({ root });
    expect(again.readManifest().generation).toBe(7);
    writeFileSync(path, edited.replace('"generation": 7', '"generation": 8'));
    expect(again.readManifest().generation).toBe(8);
    expect(() => requirePublishedManifest(again)).toThrow(/not the one that the last publish wrote/);
  });
});

describe('opening an archive', () => {
  test('that does not exist fails unless a job creates one', () => {
    const root = join(scratchFolder(), 'new');
    expect(() => opened({ root, create: false })).toThrow(usage(/There is no archive/));
    expect(() => opened({ root, upstream: null })).toThrow(usage(/ODDSLAKE_BASE_URL/));
    expect(opened({ root }).readManifest().generation).toBe(0);
    expect(opened({ root, create: false, upstream: null }).state.generation()).toBe(0);
  });

  test('in a folder with other files fails; .gitkeep does not count', () => {
    const root = scratchFolder();
    writeFileSync(join(root, '.gitkeep'), '');
    opened({ root }).close();
    const strange = scratchFolder();
    writeFileSync(join(strange, 'thesis.doc'), '');
    expect(() => opened({ root: strange })).toThrow(usage(/thesis\.doc/));
  });

  test('of another upstream fails, before and after the first publish, and after its state is lost', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    append(archive, answer('AAA', [[day0, 0.5]]));
    expect(() => opened({ root, upstream: 'https://other.test' })).toThrow(
      usage(/belongs to the upstream https:\/\/box\.test/),
    );
    await publishNow(archive);
    archive.close();
    rmSync(join(root, '.oddslake'), { recursive: true });
    expect(() => opened({ root, upstream: 'https://other.test' })).toThrow(usage(/belongs to/));
  });

  test('that never had a response takes the new upstream: the first address may have been wrong', () => {
    const root = scratchFolder();
    opened({ root, upstream: 'https://wrong.test' }).close();
    expect(opened({ root }).state.identity).toEqual({ upstream: 'https://box.test', sources: [] });
  });

  test('in place of a file fails with a message', () => {
    const file = join(scratchFolder(), 'file');
    writeFileSync(file, '');
    expect(() => opened({ root: file })).toThrow(usage(/is a file, not a folder/));
  });

  test('that another process is creating succeeds at each stage of that creation', async () => {
    const done = opened();
    append(done, answer('AAA', [[day0, 0.5]]));
    await publishNow(done);
    done.close();
    for (const look of ['size', 'isFolder', 'list'] as const) {
      for (const when of ['before', 'after'] as const) {
        const root = join(scratchFolder(), 'archive');
        const arrive = (path: string): void => {
          if (path === root && !systemDisk.isFolder(root)) cpSync(done.layout.root, root, { recursive: true });
        };
        const disk: Disk = {
          ...systemDisk,
          [look]: (path: string) => {
            if (when === 'before') arrive(path);
            const seen = systemDisk[look](path);
            if (when === 'after') arrive(path);
            return seen;
          },
        };
        expect(() => opened({ root, disk }), `${when} ${look}`).not.toThrow();
      }
    }
  });

  test('fails a publish if the manifest is not the last one written', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    append(archive, answer('AAA', [[day0, 0.5]]));
    await publishNow(archive);
    const written = readFileSync(join(root, 'manifest.json'), 'utf8');
    const manifest = JSON.parse(written) as { datasets: { ticks: { files: unknown[] } } };
    manifest.datasets.ticks.files = [];
    writeFileSync(join(root, 'manifest.json'), JSON.stringify(manifest));
    const before = hashes(root, 'ticks/**/*.parquet');
    append(archive, answer('AAA', [[day0 + 1, 0.6]]));
    await expect(publishNow(archive)).rejects.toThrow(/is not the one that the last publish wrote/);
    expect(hashes(root, 'ticks/**/*.parquet')).toEqual(before);
    writeFileSync(join(root, 'manifest.json'), written);
    await publishNow(archive);
    expect(archive.readManifest().datasets.ticks.files[0]!.rows).toBe(2);
  });

  test('keeps the parts of a day, whatever the number of parts is now', async () => {
    const root = scratchFolder();
    const archive = opened({ root, parts: 2 });
    append(archive, ...Array.from('ABCDEFGH', (symbol) => answer(symbol, [[day0, 0.5]])));
    await publishNow(archive);
    archive.close();
    rmSync(join(root, '.oddslake'), { recursive: true });
    const again = opened({ root, parts: 16 });
    append(again, ...Array.from('ABCDEFGH', (symbol) => answer(symbol, [[day0 + 1, 0.5]])));
    expect((await publishNow(again)).manifest.datasets.ticks.files).toMatchObject([
      { symbol_from: 'A', symbol_to: 'D', rows: 8 },
      { symbol_from: 'E', symbol_to: 'H', rows: 8 },
    ]);
  });

  test.each([1, formatVersion - 1, formatVersion + 1])(
    'of format %i is refused, and nothing of it changes, with its state or without',
    async (format) => {
      const root = scratchFolder();
      const archive = opened({ root });
      append(archive, answer('AAA', [[day0, 0.5]]));
      await publishNow(archive);
      archive.close();
      const path = join(root, 'manifest.json');
      const current = `"format_version": ${formatVersion}`;
      writeFileSync(path, readFileSync(path, 'utf8').replace(current, `"format_version": ${format}`));
      const expectRefused = (): void => {
        const before = hashTree(root);
        for (const mends of [false, true])
          expect(() => opened({ root, mends })).toThrow(
            usage(/has format \d+, and this oddslake reads and writes only/),
          );
        expect(hashTree(root)).toEqual(before);
      };
      expectRefused();
      rmSync(join(root, '.oddslake'), { recursive: true });
      expectRefused();
    },
  );

  test('whose .oddslake is lost rebuilds coverage, symbols and generation from the published files', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    recordMarkets(
      archive.state.db,
      [market('AAA', { question: 'Rain? 🌧', outcome: 0.5 }), market('🚀', { isActive: false })],
      now,
      true,
    );
    append(
      archive,
      answer('AAA', [
        [day0, 0.5],
        [day0 + 2 * dayMs, 0.25],
      ]),
      answer('🚀', [[day0, 1]], { origin: 'backfill' }),
    );
    await publishNow(archive);
    const facts = readAllSymbols(archive.state.db);
    const covered = facts.map(({ symbol }) => readSymbolCoverage(archive.state.db, symbol));
    append(archive, answer('AAA', [[day0 + 1, 0.5]]));
    archive.close();
    const before = hashes(root, '{ticks,coverage,symbols}/**/*');
    rmSync(join(root, '.oddslake'), { recursive: true });
    const again = opened({ root });
    expect(again.state.generation()).toBe(1);
    const rebuilt = readAllSymbols(again.state.db);
    const known = ({ listed: _, polledFrom: __, servedFrom: ___, ...rest }: (typeof facts)[number]) => rest;
    expect(rebuilt.map(known)).toEqual(facts.map(known));
    expect(rebuilt[0]!.polledFrom).toBe(facts[0]!.polledFrom);
    expect(rebuilt.map(({ symbol }) => readSymbolCoverage(again.state.db, symbol))).toEqual(covered);
    expect((await verifyArchive(again, null)).findings).toEqual([]);
    // Fetched again, the lost response is merged, and known ticks are not merged twice.
    append(
      again,
      answer('AAA', [
        [day0, 0.5],
        [day0 + 1, 0.5],
      ]),
    );
    await publishNow(again);
    expect(publishedTicks(root)).toHaveLength(4);
    expect(Object.keys(hashes(root, '{ticks,coverage,symbols}/**/*'))).toEqual(Object.keys(before));
  });

  test('whose state is damaged gives advice that works', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    append(archive, answer('AAA', [[day0, 0.5]], { windows: [{ from: day0, to: day0 + dayMs }] }));
    await publishNow(archive);
    archive.close();
    const state = join(root, '.oddslake/state.sqlite');
    writeFileSync(state, readFileSync(state).fill(7));
    const message = expect.stringMatching(/state\.sqlite is damaged.* oddslake verify --repair$/);
    expect(() => opened({ root })).toThrow(expect.objectContaining({ exitCode: 6, message }));
    const again = opened({ root, mends: true });
    expect(again.damagedState).toMatch(/^\.oddslake\/damaged\/state-\d+\.sqlite$/);
    expect(readSymbolCoverage(again.state.db, 'AAA')).toEqual([{ from: day0, to: day0 + dayMs }]);
    expect((await verifyArchive(again, null)).findings).toEqual([]);
  });

  test('whose .oddslake is lost and whose coverage is damaged opens, and verify reports the file', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    append(
      archive,
      answer(
        'AAA',
        [
          [day0, 0.5],
          [day0 + dayMs, 0.25],
        ],
        { windows: [{ from: day0, to: day0 + 2 * dayMs }] },
      ),
    );
    await publishNow(archive);
    const path = pathOfSymbol(archive, 'coverage', 'AAA');
    archive.close();
    rmSync(join(root, '.oddslake'), { recursive: true });
    writeFileSync(join(root, path), 'PAR1');
    const again = opened({ root });
    expect(readSymbolCoverage(again.state.db, 'AAA')).toEqual([{ from: day0 + dayMs, to: day0 + 2 * dayMs }]);
    expect((await verifyArchive(again, null)).findings).toEqual([{ path, kind: 'checksum mismatch' }]);
  });
});

describe('readers of one generation', () => {
  /** An archive whose second publish stopped right after its commit point, or after some renames. */
  async function stopped(renames: number) {
    const root = scratchFolder();
    const archive = opened({ root });
    append(archive, answer('AAA', [[day0, 0.5]]), answer('BBB', [[day0, 0.5]]));
    await publishNow(archive);
    append(archive, answer('AAA', [[day0 + 1, 0.6]]), answer('BBB', [[day0 + 1, 0.6]]));
    let left = renames;
    const rename = (from: string, to: string): void => {
      if (left-- === 0) throw new Error('cut');
      archive.disk.rename(from, to);
    };
    await expect(publishNow({ ...archive, disk: { ...archive.disk, rename } })).rejects.toThrow('cut');
    return { root, archive };
  }

  test.each([0, 1, 2, 3])('see the new generation from the commit on, with %i files in place', async (renames) => {
    const { root, archive } = await stopped(renames);
    expect(archive.readManifest().generation).toBe(2);
    const { files } = archive.readManifest().datasets.ticks;
    const staged = files.filter((file) => locateFile(archive, file.path).includes('/staging/2/'));
    expect(staged).toHaveLength(Math.max(0, files.length - renames));
    const held = pinGeneration(archive, ['ticks', 'coverage'], 'test');
    const copy = scratchFolder();
    for (const [i, path] of held.listPaths('ticks').entries()) cpSync(path, join(copy, 'ticks/date=x', `${i}.parquet`));
    expect(publishedTicks(copy).sort()).toEqual(
      ['AAA', 'BBB'].flatMap((symbol) => [`${symbol} ${day0} 0.5`, `${symbol} ${day0 + 1} 0.6`]),
    );
    await recoverPublish(archive, 0, systemClock);
    expect(publishedTicks(root)).toHaveLength(4);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
    // Pinned files survive later publishes.
    append(archive, answer('AAA', [[day0 + 2, 0.7]]));
    await publishNow(archive);
    expect(held.listPaths('ticks').map((path) => readFileSync(path).length)).toEqual(files.map((file) => file.bytes));
    held.release();
    expect(archive.disk.list(join(root, '.oddslake/pins'))).toEqual([]);
  });

  test('remove scratch folders of dead processes, even if their IDs are reused, and no others', async () => {
    const { root, archive } = await stopped(0);
    const pins = join(root, '.oddslake/pins');
    // Left by a dead process, one whose ID is in use again, one that had our ID, and an older oddslake.
    for (const name of ['2147483646-x', `${process.ppid}-x`, `${process.pid}-x`, '1-older'])
      archive.disk.makeVolatileFolder(join(pins, name, 'files'));
    for (const name of ['2147483646-x', `${process.ppid}-x`, `${process.pid}-x`, '1-bare'])
      writeFileSync(join(pins, `${name}.held`), '');
    const mine = acquireScratchFolder(archive, 'mine');
    const left = new Set(archive.disk.list(pins).map((name) => name.split('.')[0]));
    expect([...left]).toEqual([basename(mine.folder)]);

    // As in another container: a live process with an ID that does not exist here.
    const theirs = join(pins, '2147483645-theirs');
    archive.disk.makeVolatileFolder(theirs);
    const hold = `const db = new (require('node:sqlite').DatabaseSync)(process.argv[1]);
      db.exec('begin exclusive'); console.log('held'); setInterval(() => db, 1000);`;
    const other = spawn(process.execPath, ['-e', hold, `${theirs}.held`], { stdio: ['ignore', 'pipe', 'inherit'] });
    onTestFinished(() => void other.kill('SIGKILL'));
    await once(other.stdout, 'data');
    pinGeneration(archive, ['ticks'], 'next').release();
    expect(archive.disk.isFolder(theirs)).toBe(true);
    other.kill('SIGKILL');
    await once(other, 'exit');
    pinGeneration(archive, ['ticks'], 'next').release();
    expect(archive.disk.isFolder(theirs)).toBe(false);
    mine.release();
    expect(archive.disk.list(pins)).toEqual([]);
  });
});
