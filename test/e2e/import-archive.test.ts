import { existsSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createLayout } from '../../src/archive/format/layout.ts';
import { tryLock } from '../../src/archive/journal/lock.ts';
import { answer, append, day0, hourMs, now, opened, publishNow } from '../archive/scratch.ts';
import { contentsOf, copyOf, united } from '../archive/united.ts';
import { needsObjectStorage } from '../harness/needs.ts';
import { useBucketServer } from './bucket-server.ts';
import { expectDone, folder, hashes } from './lake.ts';
import { run } from './run-program.ts';

const dayOf = (n: number) => ({ from: day0 + n * 24 * hourMs, to: day0 + (n + 1) * 24 * hourMs });

/** An archive that recorded these days of one symbol. */
async function recorded(days: readonly number[], price = 0.5): Promise<string> {
  const archive = opened();
  for (const day of days) {
    const windows = [dayOf(day)];
    append(archive, answer('A', [[windows[0]!.from + hourMs, price + day / 100]], { windows, observedAt: now + day }));
    await publishNow(archive);
  }
  archive.close();
  return archive.layout.root;
}

const flags = ['--set', 'source.name=https://box.test', '--json'];

test('takes another archive whole into a new folder, and nothing the second time', async () => {
  const other = await recorded([0, 1]);
  const output = join(folder(), 'new');
  const dry = await run(['import', other, '--output', output, '--dry-run']);
  expect([dry.code, existsSync(output)]).toEqual([0, false]);
  expect(dry.stdout).toContain('ticks: 2 rows');
  const first = await expectDone(run(['import', other, '--output', output, '--json']));
  expect(first.summary).toMatchObject({ job: 'import', exit_code: 0, ticks: { fetched: 2, accepted: 2 } });
  expect(contentsOf(output)).toEqual(contentsOf(other));
  const before = hashes(output, '*');
  const again = await run(['import', other, '--output', output, '--json']);
  expect(again.summary).toMatchObject({ ticks: { fetched: 2, duplicates: 2 }, published: { files: 0 } });
  expect(hashes(output, '*')).toEqual(before);
});

test('says in one sentence what it refuses, and changes nothing', async () => {
  const [own, other] = [await recorded([0]), await recorded([1])];
  const before = hashes(own, '*');
  const take = async (...args: string[]) => {
    const { code, stdout, stderr } = await run(['import', ...args, '--output', own]);
    return [code, stdout + stderr];
  };
  expect(await take(own)).toEqual([2, expect.stringContaining('is the archive that would take it in')]);
  const part = [2, expect.stringContaining(`is a part of the archive ${other}`)];
  expect(await take(join(other, 'ticks'))).toEqual(part);
  expect(await take(globSync(`${other}/ticks/*/*.parquet`)[0]!)).toEqual(part);
  expect(await take(other, other)).toEqual([2, expect.stringContaining('imported by itself')]);
  expect(await take(other, '--tz', 'UTC')).toEqual([2, expect.stringContaining('--tz does not apply')]);
  const elsewhere = opened({ upstream: 'https://other.test' });
  append(elsewhere, answer('A', [[day0, 0.5]]));
  await publishNow(elsewhere);
  expect(await take(elsewhere.layout.root)).toEqual([2, expect.stringContaining('belongs to the upstream')]);
  for (const version of [3, 99]) {
    const copy = copyOf(other);
    const text = readFileSync(join(copy, 'manifest.json'), 'utf8');
    writeFileSync(join(copy, 'manifest.json'), text.replace(/"format_version": \d+/, `"format_version": ${version}`));
    expect(await take(copy)).toEqual([2, expect.stringContaining(`format ${version}`)]);
  }
  expect(hashes(own, '*')).toEqual(before);
});

test('a damaged file of the other archive is named, and nothing is taken', async () => {
  const [own, other] = [await recorded([0]), await recorded([1, 2])];
  const before = hashes(own, '*');
  const paths = globSync('{ticks,coverage,symbols}/**/*.parquet', { cwd: other });
  expect(paths.length).toBeGreaterThan(3);
  for (const path of paths) {
    const copy = copyOf(other);
    const bytes = readFileSync(join(copy, path));
    bytes[bytes.length - 12]! ^= 1;
    writeFileSync(join(copy, path), bytes);
    const damaged = await run(['import', copy, '--output', own]);
    expect([damaged.code, damaged.stdout]).toEqual([6, expect.stringContaining(`${path} differs from its manifest`)]);
    rmSync(join(copy, path));
    const missing = await run(['import', copy, '--output', own]);
    expect([missing.code, missing.stdout]).toEqual([6, expect.stringContaining(`${path} is missing`)]);
  }
  expect(hashes(own, '*')).toEqual(before);
});

test('an archive that is being published to is not called damaged', async () => {
  const [own, other] = [await recorded([0]), await recorded([1])];
  // Its files are in place before its manifest.
  rmSync(join(other, globSync('ticks/*/*.parquet', { cwd: other })[0]!));
  const lock = tryLock(createLayout(other).lockPath)!;
  const meanwhile = await run(['import', other, '--output', own]);
  expect([meanwhile.code, meanwhile.stdout]).toEqual([5, expect.stringContaining('was published to meanwhile')]);
  // Damage of one's own archive is damage all the same.
  const damaged = copyOf(own);
  rmSync(join(damaged, globSync('ticks/*/*.parquet', { cwd: damaged })[0]!));
  const union = await recorded([0], 0.25);
  const unionLock = tryLock(createLayout(union).lockPath)!;
  expect((await run(['import', union, '--output', damaged])).code).toBe(6);
  for (const one of [lock, unionLock]) one.release();
  expect((await run(['import', other, '--output', own])).code).toBe(6);
});

describe('an archive in a bucket', needsObjectStorage(), () => {
  const server = useBucketServer();

  test('is taken in as a folder is', async () => {
    const [a, b] = [await recorded([0, 2]), await recorded([1, 2], 0.25)];
    await expectDone(run(['push', 's3://lakes/b', '--output', b], server.bucketAccess()));
    const output = copyOf(a);
    const cache = ['--set', `bucket.cache_dir=${folder()}`];
    await expectDone(run(['import', 's3://lakes/b', '--output', output, ...cache, ...flags], server.bucketAccess()));
    expect(contentsOf(output)).toEqual(contentsOf(await united(copyOf(a), [b])));
    const none = await run(['import', 's3://lakes/none', '--output', output, ...cache], server.bucketAccess());
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('There is no archive at s3://lakes/none')]);
  });

  test('is continued by a machine that recorded beside the one that died', async () => {
    const [a, b] = [await recorded([0, 1]), await recorded([1, 2])];
    const url = 's3://lakes/shared';
    await expectDone(run(['push', url, '--output', a], server.bucketAccess()));
    const output = join(folder(), 'pulled');
    await expectDone(run(['pull', url, output], server.bucketAccess()));
    const taken = await run(['import', b, '--output', output, '--json']);
    expect(taken.summary).toMatchObject({ exit_code: 0, ticks: { fetched: 2, accepted: 1, duplicates: 1 } });
    await expectDone(run(['push', url, '--output', output], server.bucketAccess()));
    // Nothing but a list of symbols says when a symbol was seen last.
    const { symbols: _, ...whole } = contentsOf(await recorded([0, 1, 2]));
    const copy = join(folder(), 'copy');
    await expectDone(run(['pull', url, copy], server.bucketAccess()));
    expect(contentsOf(copy)).toMatchObject(whole);
    const verified = await run(['verify', url, '--download'], server.bucketAccess());
    expect([verified.code, verified.stdout]).toEqual([0, expect.stringContaining('no damage found')]);
  });
});
