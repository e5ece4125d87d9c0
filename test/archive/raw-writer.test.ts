import { randomBytes } from 'node:crypto';
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createDisk, type Disk, systemCalls, systemDisk } from '../../src/archive/disk/file-system.ts';
import { createLayout } from '../../src/archive/format/layout.ts';
import { pruneRawFiles, readRawFile } from '../../src/archive/raw/raw-file.ts';
import { openRawWriter } from '../../src/archive/raw/raw-writer.ts';
import type { RawPage } from '../../src/contract/raw-page.ts';
import { waitFor } from '../harness/limits.ts';
import { share } from '../harness/share.ts';
import { day0, dayMs, scratchFolder } from './scratch.ts';

const secret = 'sk-very-secret';
const limits = { keepDays: 7, bytesMax: 1 << 30 };

const keeperIn = (root: string, disk: Disk = systemDisk, runId = 'run') =>
  openRawWriter({ disk, layout: createLayout(root) }, { runId, secret, ...limits });

const answer = (n: number, body: string | Uint8Array, receivedAt = day0 + n) => ({
  asked: { route: 'orderbook', symbol: `S${n}` } as const,
  askedAt: n,
  receivedAt,
  servedAt: null,
  status: 200,
  body: Buffer.from(body),
});

const filesIn = (root: string): string[] => globSync('.oddslake/raw/**/*.raw', { cwd: root }).sort();

async function keptIn(root: string): Promise<RawPage[]> {
  const out: RawPage[] = [];
  for (const path of filesIn(root)) {
    for await (const piece of readRawFile(readFileSync(join(root, path)), 1 << 28)) {
      if (piece.kind !== 'pages') throw new Error(`${path} is ${piece.kind}`);
      out.push(...piece.pages);
    }
  }
  return out;
}

test('writes responses in order, to one file per run and UTC day, even if the clock goes back', async () => {
  const root = scratchFolder();
  const writer = keeperIn(root);
  const given = [
    ...Array.from({ length: 200 }, (_, n) => answer(n, `${n}`.repeat(n))),
    answer(200, 'late', day0 + dayMs - 1),
    answer(201, 'next day', day0 + dayMs),
    answer(202, 'back again', day0 + dayMs - 1),
  ];
  for (const one of given) {
    writer.write(one);
    if (one.askedAt % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  expect(await writer.close()).toBeNull();
  expect(filesIn(root)).toEqual([
    '.oddslake/raw/2026-06-01/run-000.raw',
    '.oddslake/raw/2026-06-01/run-002.raw',
    '.oddslake/raw/2026-06-02/run-001.raw',
  ]);
  const expected = [...given.slice(0, 201), given[202]!, given[201]!];
  expect(await keptIn(root)).toEqual(expected.map((one) => ({ run: 'run', ...one, redacted: false })));
});

test('a run without requests leaves no file', async () => {
  const root = scratchFolder();
  expect(await keeperIn(root).close()).toBeNull();
  expect(filesIn(root)).toEqual([]);
});

test('never writes the API key to a file, even if a response contains it', async () => {
  const root = scratchFolder();
  const writer = keeperIn(root);
  writer.write(answer(0, `{"you said": "Bearer ${secret}", "again": "${secret}${secret}"}`));
  writer.write(answer(1, 'none here'));
  writer.write(answer(2, `${secret} first`));
  expect(await writer.close()).toBeNull();
  const [one, two, three] = await keptIn(root);
  expect(one).toMatchObject({ redacted: true });
  expect(Buffer.from(one!.body).toString()).toBe('{"you said": "Bearer [key]", "again": "[key][key]"}');
  expect(two!.redacted).toBe(false);
  expect(Buffer.from(three!.body).toString()).toBe('[key] first');
});

test('a full or broken disk loses raw responses only, with one warning', async () => {
  for (const code of ['ENOSPC', 'EIO', 'EBADF']) {
    const root = scratchFolder();
    let left = 3;
    const failing = createDisk({
      ...systemCalls,
      write(file, bytes) {
        if (left-- <= 0) throw Object.assign(new Error('no'), { code });
        return systemCalls.write(file, bytes);
      },
    });
    const writer = keeperIn(root, failing);
    for (let n = 0; n < 20; n++) {
      writer.write(answer(n, 'x'.repeat(1000)));
      await new Promise((resolve) => setImmediate(resolve));
    }
    const warning = await writer.close();
    expect(warning).toMatch(/^Raw responses could not be saved \(raw\.keep_days\).*: \S/);
    if (code === 'EBADF') expect(warning).toMatch(/: no$/);
    expect(filesIn(root).length).toBe(code === 'ENOSPC' ? 0 : 1);
  }
  // A folder cannot be created in place of a file.
  const root = scratchFolder();
  mkdirSync(join(root, '.oddslake'));
  writeFileSync(join(root, '.oddslake/raw'), '');
  const writer = keeperIn(root);
  writer.write(answer(0, 'x'));
  expect(await writer.close()).toMatch(/could not be saved/);
});

if (share === 1)
  test('drops and reports responses beyond the queue, and splits a long run into files', async () => {
    const root = scratchFolder();
    const writer = keeperIn(root);
    // Noise is incompressible, which zstd detects early.
    const noise = randomBytes(10 * 1024 * 1024);
    for (let n = 0; n < 10; n++) writer.write(answer(n, noise));
    expect(await writer.close()).toBe('4 raw responses were not saved (raw.keep_days): the disk is too slow.');
    expect((await keptIn(root)).length).toBe(6);
    expect(filesIn(root).length).toBe(2);
  });

const megabyte = 1024 * 1024;

if (share === 1)
  test('written responses free the queue; a full file is followed by a new one', async () => {
    const root = scratchFolder();
    let written = 0;
    const counting = createDisk({
      ...systemCalls,
      write(file, bytes) {
        const count = systemCalls.write(file, bytes);
        written += count;
        return count;
      },
    });
    const writer = keeperIn(root, counting);
    const noise = randomBytes(33 * megabyte);
    for (const n of [1, 2]) {
      writer.write(answer(n, noise));
      await waitFor(() => written >= n * noise.length, 'the answer on the disk');
      // Responses after the last write do not wait any more.
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await writer.close()).toBeNull();
    expect(filesIn(root).length).toBe(2);
  });

test('queues up to 64 MiB, or one response of any size', async () => {
  const [half, long] = [Buffer.alloc(32 * megabyte), Buffer.alloc(65 * megabyte)];
  const writer = keeperIn(scratchFolder());
  for (const body of [half, half, 'x']) writer.write(answer(0, body));
  expect(await writer.close()).toBe('1 raw response was not saved (raw.keep_days): the disk is too slow.');
  const other = keeperIn(scratchFolder());
  other.write(answer(0, long));
  expect(await other.close()).toBeNull();
});

test('responses that arrive during a write share a piece, up to 1 MiB', async () => {
  const sizesIn = async (root: string): Promise<number[]> => {
    const out: number[] = [];
    for (const path of filesIn(root))
      for await (const piece of readRawFile(readFileSync(join(root, path)), 1 << 28))
        out.push(piece.kind === 'pages' ? piece.pages.length : -1);
    return out;
  };
  // The first is being written when the second arrives.
  for (const [bytes, sizes] of [
    [1, [1, 6]],
    [megabyte / 2, [1, 2, 2, 2]],
    [0.6 * megabyte, [1, 1, 1, 1, 1, 1, 1]],
  ] as const) {
    const root = scratchFolder();
    const writer = keeperIn(root);
    for (let n = 0; n < 7; n++) writer.write(answer(n, Buffer.alloc(bytes)));
    expect(await writer.close()).toBeNull();
    expect(await sizesIn(root), `${bytes}`).toEqual(sizes);
  }
});

test('starts a new file with the first response of a day, and ignores responses after close', async () => {
  const root = scratchFolder();
  const writer = keeperIn(root);
  writer.write(answer(0, 'x'));
  writer.write(answer(1, 'x', day0 + dayMs));
  await waitFor(() => filesIn(root).length >= 2, 'the file of the new day');
  await writer.close();
  writer.write(answer(2, 'x', day0 + 2 * dayMs));
  expect(await writer.close()).toBeNull();
  expect(filesIn(root).length).toBe(2);
});

test('prunes files past their retention, and the oldest beyond the size limit', () => {
  const root = scratchFolder();
  const put = (day: number, name: string, bytes: number): void => {
    const folder = join(root, '.oddslake/raw', new Date(day0 + day * dayMs).toISOString().slice(0, 10));
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, name), Buffer.alloc(bytes));
  };
  const place = { disk: systemDisk, layout: createLayout(root) };
  pruneRawFiles(place, limits, day0);
  for (let day = 0; day < 12; day++) put(day, 'a-000.raw', 100);
  put(11, 'b-000.raw', 100);
  mkdirSync(join(root, '.oddslake/raw/0 of somebody'));
  writeFileSync(join(root, '.oddslake/raw/0 of somebody/notes'), 'mine');
  const prune = (rest: Partial<typeof limits>, atMs: number | null = day0 + 11 * dayMs + 5) => {
    pruneRawFiles(place, { ...limits, ...rest }, atMs);
    return filesIn(root).map((path) => path.slice('.oddslake/raw/2026-06-'.length));
  };
  expect(prune({}, null).length).toBe(13);
  expect(prune({})).toEqual(
    [5, 6, 7, 8, 9, 10, 11, 12].map((d) => `${String(d).padStart(2, '0')}/a-000.raw`).concat('12/b-000.raw'),
  );
  expect(prune({ bytesMax: 250 })).toEqual(['12/a-000.raw', '12/b-000.raw']);
  expect(prune({ bytesMax: 200 }).length).toBe(2);
  expect(prune({ bytesMax: 1 })).toEqual([]);
  expect(readFileSync(join(root, '.oddslake/raw/0 of somebody/notes'), 'utf8')).toBe('mine');
  put(11, 'c-000.raw', 1);
  expect(prune({ keepDays: 0 })).toEqual([]);
  expect(globSync('.oddslake/raw', { cwd: root })).toEqual([]);
});

test('packs responses that arrive while it gathers, and stops gathering on close', async () => {
  const pieces = async (gather: ((signal: AbortSignal) => Promise<void>) | undefined): Promise<number[]> => {
    const root = scratchFolder();
    const options = { runId: 'run', secret, ...limits, ...(gather === undefined ? {} : { gather }) };
    const writer = openRawWriter({ disk: systemDisk, layout: createLayout(root) }, options);
    for (let n = 0; n < 20; n++) {
      writer.write(answer(n, `${n}`));
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await writer.close()).toBeNull();
    expect(await keptIn(root)).toHaveLength(20);
    const counts: number[] = [];
    for (const path of filesIn(root))
      for await (const piece of readRawFile(readFileSync(join(root, path)), 1 << 28))
        if (piece.kind === 'pages') counts.push(piece.pages.length);
    return counts;
  };
  const forEver = (signal: AbortSignal): Promise<void> =>
    new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  expect(await pieces(forEver)).toEqual([20]);
  expect((await pieces(undefined)).length).toBeGreaterThan(10);
});
