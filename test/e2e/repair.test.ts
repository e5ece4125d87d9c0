import { existsSync, globSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { RepairReport } from '../../src/archive/integrity/repair.ts';
import { access, expectDone, fastFlags, fixedNow, folder, hashes, manifestOf, sandbox } from './lake.ts';
import { runJob as job, run } from './run-program.ts';
import { keyOf, serve as serveArchive } from './served-archive.ts';

// Many processes, slow on a busy machine.
const input = { seed: 6, nowMs: fixedNow, markets: 4, ticksPerDay: 300 };
const datasetsRestored = ['ticks', 'candles_1h', 'candles_1d', 'coverage', 'conflicts', 'symbols'] as const;

async function filled(output: string) {
  const box = await sandbox(input);
  const days = ['--from', '2025-06-12', '--to', '2025-06-14'];
  await expectDone(job('backfill', box.url, output, ...days));
  return box;
}

/** Damages the first file of a dataset in its first row group. */
function damageFile(output: string, dataset: string): string {
  const path = globSync(`${dataset}/**/*.parquet`, { cwd: output }).sort()[0]!;
  const bytes = readFileSync(join(output, path));
  bytes[40]! ^= 1;
  writeFileSync(join(output, path), bytes);
  return path;
}

const repairArgs = (output: string, ...flags: string[]): string[] => [
  'verify',
  '--repair',
  '--output',
  output,
  '--set',
  'source.name=box',
  ...fastFlags,
  ...flags,
];

/** The `--json` line before the summary. */
const repairedOf = (stdout: string): RepairReport =>
  (JSON.parse(stdout.trimEnd().split('\n').at(-2)!) as { repaired: RepairReport }).repaired;

describe('verify --repair', () => {
  test('restores the rows of a damaged file from the upstream, to the byte', async () => {
    const output = folder();
    const box = await filled(output);
    const before = hashes(output, ...datasetsRestored);
    rmSync(join(output, '.oddslake/raw'), { recursive: true });
    const path = damageFile(output, 'ticks');
    expect((await run(['verify', '--output', output])).code).toBe(6);
    const repaired = await expectDone(run(repairArgs(output), access(box.url)));
    expect(repairedOf(repaired.stdout)).toMatchObject({
      repaired: [{ path, kind: 'checksum mismatch', moved_to: `.oddslake/damaged/1/${path}` }],
      unrecoverable: [],
    });
    expect(repaired.summary).toMatchObject({ job: 'repair', exit_code: 0, gaps: 0, failures: [] });
    expect(repaired.summary.requests).toBeGreaterThan(0);
    expect(hashes(output, ...datasetsRestored)).toEqual(before);
    await expectDone(run(['verify', '--output', output]));
    const again = await expectDone(run(repairArgs(output).filter((flag) => flag !== '--json')));
    expect(again.stdout).toMatch(/^ {2}repaired {3}nothing: no damage found in \d+ files, /m);
  });

  test('restores an unreadable manifest without an upstream', async () => {
    const output = folder();
    await filled(output);
    const text = readFileSync(join(output, 'manifest.json'), 'utf8');
    truncateSync(join(output, 'manifest.json'), 1000);
    rmSync(join(output, 'SHA256SUMS'));
    const looked = await run(['verify', '--output', output]);
    expect([looked.code, looked.stderr]).toEqual([6, expect.stringContaining('verify --repair')]);
    const { stdout } = await expectDone(run(['verify', '--repair', '--output', output]));
    expect(stdout).toContain(
      'manifest.json: checksum mismatch; restored; the damaged file was moved to .oddslake/damaged/1/manifest.json',
    );
    const withoutId = (manifest: string): string => manifest.replace(/"commit_id": "[0-9a-f]{32}"/, '');
    expect(withoutId(readFileSync(join(output, 'manifest.json'), 'utf8'))).toBe(withoutId(text));
    await expectDone(run(['verify', '--output', output]));
  });

  test('reports unrecoverable rows with exit code 4, and keeps the archive usable', async () => {
    const output = folder();
    const box = await sandbox(input);
    await expectDone(job('nightly', box.url, output, '--date', '2025-06-13'));
    const path = damageFile(output, 'markets');
    const { rows } = manifestOf(output).datasets.markets.files[0]!;
    const repaired = await run(
      repairArgs(output).filter((flag) => flag !== '--json'),
      access(box.url),
    );
    expect(repaired.code, repaired.stderr).toBe(4);
    // The outcome comes before the damage that was found.
    expect(repaired.stdout).toMatch(
      /\n {2}repaired {3}1 file: 1 removed · of .*\n {2}repair {5}done after .*, but incomplete .*\n(?:.*\n)*The damaged/,
    );
    expect(repaired.stdout).toContain(`${path}: checksum mismatch; removed, 0 of ${rows} rows kept`);
    expect(repaired.stdout).toContain(`lost permanently: ${rows} rows of markets in ${path}`);
    await expectDone(run(['verify', '--output', output]));
    await expectDone(job('nightly', box.url, output, '--date', '2025-06-14'));
  });

  test('lets the service serve repaired files again', async () => {
    const output = folder();
    const box = await filled(output);
    const path = damageFile(output, 'ticks');
    const wanted = manifestOf(output).datasets.ticks.files.find((file) => file.path === path)!;
    const service = await serveArchive(output, await keyOf(output));
    const [, day, name] = /date=([^/]+)\/(.*)$/.exec(path)!;
    const url = `/api/v1/export/files/ticks/${day}/${name}`;
    expect((await service.ask(url)).status).toBe(503);
    await expectDone(run(repairArgs(output), access(box.url)));
    const given = await service.ask(url);
    expect([given.status, given.headers.get('etag')]).toEqual([200, `"${wanted.sha256}"`]);
    expect((await given.arrayBuffer()).byteLength).toBe(wanted.bytes);
    const rows = manifestOf(output).datasets.ticks.files.reduce((sum, file) => sum + file.rows, 0);
    const counted = await run(['sql', '--output', output, '--format', 'csv', 'select count(*) n from ticks']);
    expect(counted.stdout).toBe(`n\n${rows}\n`);
  });
});

test('verify finishes a publish that was interrupted, and is not clean before', async () => {
  const output = folder();
  const [first, second] = ['1748900000000', '1749000000000'].map((t) => {
    const path = join(folder(), 'rows.csv');
    writeFileSync(path, `symbol,t,p\nA,${t},0.5\n`);
    return path;
  });
  const set = ['--output', output, '--set', 'source.name=box'];
  await expectDone(run(['import', first!, ...set]));
  const target = join(output, 'ticks/date=2025-06-04', 'part-00.parquet');
  const targets = Array.from({ length: 64 }, (_, part) =>
    target.replace('part-00', `part-${String(part).padStart(2, '0')}`),
  );
  // Folders of these names refuse the rename, which is after the commit.
  for (const path of targets) mkdirSync(join(path, 'in-the-way'), { recursive: true });
  expect((await run(['import', second!, ...set])).code).toBe(1);
  expect(manifestOf(output).generation).toBe(1);
  const stuck = await run(['verify', ...set]);
  expect([stuck.code, stuck.stderr]).toEqual([1, expect.stringContaining('.parquet')]);
  for (const path of targets) rmSync(path, { recursive: true });
  const verified = await run(['verify', ...set]);
  expect([verified.code, verified.stdout]).toEqual([0, expect.stringContaining('no damage found')]);
  expect(manifestOf(output).generation).toBe(2);
  expect(manifestOf(output).datasets.ticks.files.filter(({ path }) => !existsSync(join(output, path)))).toEqual([]);
});
