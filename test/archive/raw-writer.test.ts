import { randomBytes } from 'node:crypto';
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createDisk, type Disk, systemDisk } from '../../src/archive/disk/file-system.ts';
import { systemCalls } from '../../src/archive/disk/syscalls.ts';
import { createLayout } from '../../src/archive/format/layout.ts';
import { pruneRawFiles, readRawFile } from '../../src/archive/raw/raw-file.ts';
import { openRawWriter } from '../../src/archive/raw/raw-writer.ts';
import type { RawPage } from '../../src/contract/raw-page.ts';
import { until } from '../harness/limits.ts';
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

test('keeps answers in order, in a file of the run for each UTC day, also when the clock goes back', async () => {
  const root = scratchFolder();
  const keeper = keeperIn(root);
  const given = [
    ...Array.from({ length: 200 }, (_, n) => answer(n, `${n}`.repeat(n))),
    answer(200, 'late', day0 + dayMs - 1),
    answer(201, 'next day', day0 + dayMs),
    answer(202, 'back again', day0 + dayMs - 1),
  ];
  for (const one of given) {
    keeper.write(one);
    if (one.askedAt % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  expect(await keeper.close()).toBeNull();
  expect(filesIn(root)).toEqual([
    '.oddslake/raw/2026-06-01/run-000.raw',
    '.oddslake/raw/2026-06-01/run-002.raw',
    '.oddslake/raw/2026-06-02/run-001.raw',
  ]);
  const wanted = [...given.slice(0, 201), given[202]!, given[201]!];
  expect(await keptIn(root)).toEqual(wanted.map((one) => ({ run: 'run', ...one, redacted: false })));
});

test('a run that asks nothing leaves no file', async () => {
  const root = scratchFolder();
  expect(await keeperIn(root).close()).toBeNull();
  expect(filesIn(root)).toEqual([]);
});

test('the key never gets into a file, though the service repeats it', async () => {
  const root = scratchFolder();
  const keeper = keeperIn(root);
  keeper.write(answer(0, `{"you said": "Bearer ${secret}", "again": "${secret}${secret}"}`));
  keeper.write(answer(1, 'none here'));
  keeper.write(answer(2, `${secret} first`));
  expect(await keeper.close()).toBeNull();
  const [one, two, three] = await keptIn(root);
  expect(one).toMatchObject({ redacted: true });
  expect(Buffer.from(one!.body).toString()).toBe('{"you said": "Bearer [key]", "again": "[key][key]"}');
  expect(two!.redacted).toBe(false);
  expect(Buffer.from(three!.body).toString()).toBe('[key] first');
});

test('a disk that is full or broken costs the answers, told in one sentence, and nothing else', async () => {
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
    const keeper = keeperIn(root, failing);
    for (let n = 0; n < 20; n++) {
      keeper.write(answer(n, 'x'.repeat(1000)));
      await new Promise((resolve) => setImmediate(resolve));
    }
    const told = await keeper.close();
    expect(told).toMatch(/^Answers could not be kept as they came \(raw\.keep_days\).*: \S/);
    if (code === 'EBADF') expect(told).toMatch(/: no$/);
    expect(filesIn(root).length).toBe(code === 'ENOSPC' ? 0 : 1);
  }
  // No folder can be made where a file stands.
  const root = scratchFolder();
  mkdirSync(join(root, '.oddslake'));
  writeFileSync(join(root, '.oddslake/raw'), '');
  const keeper = keeperIn(root);
  keeper.write(answer(0, 'x'));
  expect(await keeper.close()).toMatch(/could not be kept/);
});

if (share === 1)
  test('more than can wait is let go and told, and a long run is cut into files', async () => {
    const root = scratchFolder();
    const keeper = keeperIn(root);
    // Nothing makes noise smaller, and it is soon seen.
    const noise = randomBytes(10 * 1024 * 1024);
    for (let n = 0; n < 10; n++) keeper.write(answer(n, noise));
    expect(await keeper.close()).toBe(
      '4 answers were not kept as they came (raw.keep_days): the disk is too slow for them.',
    );
    expect((await keptIn(root)).length).toBe(6);
    expect(filesIn(root).length).toBe(2);
  });

const megabyte = 1024 * 1024;

if (share === 1)
  test('what was written makes room for what is to come, in a file of its own where one is long enough', async () => {
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
    const keeper = keeperIn(root, counting);
    const noise = randomBytes(33 * megabyte);
    for (const n of [1, 2]) {
      keeper.write(answer(n, noise));
      await until(() => written >= n * noise.length, 'the answer on the disk');
      // What follows the last write waits for nothing any more.
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await keeper.close()).toBeNull();
    expect(filesIn(root).length).toBe(2);
  });

test('sixty-four megabytes can wait, and one answer however long it is', async () => {
  const [half, long] = [Buffer.alloc(32 * megabyte), Buffer.alloc(65 * megabyte)];
  const keeper = keeperIn(scratchFolder());
  for (const body of [half, half, 'x']) keeper.write(answer(0, body));
  expect(await keeper.close()).toBe(
    '1 answer was not kept as they came (raw.keep_days): the disk is too slow for them.',
  );
  const other = keeperIn(scratchFolder());
  other.write(answer(0, long));
  expect(await other.close()).toBeNull();
});

test('answers that come while others are written share a piece of the file, up to a megabyte', async () => {
  const sizesIn = async (root: string): Promise<number[]> => {
    const out: number[] = [];
    for (const path of filesIn(root))
      for await (const piece of readRawFile(readFileSync(join(root, path)), 1 << 28))
        out.push(piece.kind === 'pages' ? piece.pages.length : -1);
    return out;
  };
  // The first is on its way when the second comes.
  for (const [bytes, sizes] of [
    [1, [1, 6]],
    [megabyte / 2, [1, 2, 2, 2]],
    [0.6 * megabyte, [1, 1, 1, 1, 1, 1, 1]],
  ] as const) {
    const root = scratchFolder();
    const keeper = keeperIn(root);
    for (let n = 0; n < 7; n++) keeper.write(answer(n, Buffer.alloc(bytes)));
    expect(await keeper.close()).toBeNull();
    expect(await sizesIn(root), `${bytes}`).toEqual(sizes);
  }
});

test('a new day has its file as soon as its first answer comes, and what comes after the end is nobody’s', async () => {
  const root = scratchFolder();
  const keeper = keeperIn(root);
  keeper.write(answer(0, 'x'));
  keeper.write(answer(1, 'x', day0 + dayMs));
  await until(() => filesIn(root).length >= 2, 'the file of the new day');
  await keeper.close();
  keeper.write(answer(2, 'x', day0 + 2 * dayMs));
  expect(await keeper.close()).toBeNull();
  expect(filesIn(root).length).toBe(2);
});

test('prunes what is older than it is kept, and the oldest where there is too much', () => {
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

test('packs answers together that come while it waits for more, and waits no longer once it is closed', async () => {
  const pieces = async (gather: ((signal: AbortSignal) => Promise<void>) | undefined): Promise<number[]> => {
    const root = scratchFolder();
    const options = { runId: 'run', secret, ...limits, ...(gather === undefined ? {} : { gather }) };
    const keeper = openRawWriter({ disk: systemDisk, layout: createLayout(root) }, options);
    for (let n = 0; n < 20; n++) {
      keeper.write(answer(n, `${n}`));
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await keeper.close()).toBeNull();
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
