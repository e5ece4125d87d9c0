import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { waitFor } from '../harness/limits.ts';
import { access, expectDone, fixedNow, folder, hashes, jobArgs, manifestOf, sandbox, start } from './lake.ts';
import { run } from './run-program.ts';

/** Files of a snapshot that do not match its manifest; expected to be empty. */
function listUnmatched(snapshot: string): string[] {
  const manifest = manifestOf(snapshot);
  const listed = Object.values(manifest.datasets).flatMap(({ files }) => files);
  const wanted = Object.fromEntries(listed.map((file) => [file.path, file.sha256]));
  const there = hashes(snapshot, '*');
  const sums = listed.map((file) => `${file.sha256}  ${file.path}\n`).join('');
  return [
    ...Object.keys({ ...wanted, ...there }).filter((path) => wanted[path] !== there[path]),
    ...(readFileSync(join(snapshot, 'SHA256SUMS'), 'utf8') === sums ? [] : ['SHA256SUMS']),
    ...(readFileSync(join(snapshot, 'README.md'), 'utf8').includes(`generation ${manifest.generation},`)
      ? []
      : ['README.md']),
  ];
}

test('each snapshot during repeated publishes is of one generation', async () => {
  const [output, parent] = [folder(), folder()];
  const box = await sandbox({ seed: 8, nowMs: fixedNow, markets: 20, ticksPerDay: 400 });
  const often = ['--from', '2025-06-10', '--to', '2025-06-15', '--set', 'publish.journal_ticks_max=2000'];
  const { child, ended } = start(jobArgs('backfill', output, ...often), access(box.url));
  await waitFor(() => {
    try {
      return manifestOf(output).generation > 0;
    } catch {
      return false;
    }
  }, 'the first publish');
  const generations: number[] = [];
  do {
    const snap = join(parent, `${generations.length}`);
    const taken = await expectDone(run(['snapshot', snap, '--output', output, '--json']));
    const printed = JSON.parse(taken.stdout) as { folder: string; generation: number; files: number; copied: number };
    expect(printed).toMatchObject({ folder: snap, generation: manifestOf(snap).generation, copied: 0 });
    expect(listUnmatched(snap)).toEqual([]);
    generations.push(printed.generation);
  } while (child.exitCode === null && generations.length < 8);
  await expectDone(ended);
  // The snapshots have not changed since.
  for (const i of generations.keys()) expect(listUnmatched(join(parent, `${i}`))).toEqual([]);
  await expectDone(run(['verify', '--output', join(parent, '0'), '--json']));

  const refused = await run(['snapshot', parent, '--output', output]);
  expect([refused.code, refused.stdout]).toEqual([2, '']);
  expect(refused.stderr).toMatch(/^oddslake: .* is not empty/);
});
