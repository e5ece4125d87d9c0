import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { answer, append, day0, opened, publishNow } from '../archive/scratch.ts';
import { folder, run, until } from './lake.ts';
import { keyOf, type ServeProcess, serve, sha256, sha256Of } from './served-archive.ts';

interface Job {
  readonly id: string;
  readonly state: string;
  readonly file: { readonly url: string; readonly sha256: string; readonly rows: number } | null;
}

const ticks = 300_000;

/** An archive whose export takes its time, and what the export of all its ticks is. */
async function large() {
  const root = folder();
  const archive = opened({ root, parts: 1 });
  append(
    archive,
    answer(
      'KX A',
      Array.from({ length: ticks }, (_, i) => [day0 + i * 100, Math.sin(i)]),
    ),
  );
  await publishNow(archive);
  archive.close();
  const file = join(folder(), 'all.csv');
  expect((await run(['export', '--output', root, '--out', file])).code).toBe(0);
  return { root, wanted: sha256Of(file), key: await keyOf(root) };
}

const jobOf = async (service: ServeProcess, id: string): Promise<Job> =>
  (await (await service.ask(`/api/v1/export/jobs/${id}`)).json()) as Job;

async function asked(service: ServeProcess): Promise<Job> {
  const answered = await service.ask('/api/v1/export', {
    ...{ method: 'POST', body: JSON.stringify({ dataset: 'ticks', format: 'csv' }) },
    headers: { 'content-type': 'application/json' },
  });
  expect(answered.status).toBe(202);
  return (await answered.json()) as Job;
}

const exportsOf = (root: string): string[] =>
  readdirSync(join(root, '.oddslake/exports')).filter((name) => name !== 'place');

describe('a service that ends in the middle of an export', () => {
  test.each([
    ['SIGKILL', null],
    ['SIGTERM', 0],
  ] as const)('by %s makes it whole after its next start', { timeout: 60_000 }, async (signal, code) => {
    const { root, wanted, key } = await large();
    const first = await serve(root, key);
    const [job, next] = [await asked(first), await asked(first)];
    // A draft of it is there: it is being written.
    await until(() => exportsOf(root).some((name) => name.startsWith(`.${job.id}`)));
    expect((await jobOf(first, job.id)).state).toBe('running');
    expect(await first.end(signal)).toBe(code);
    const left = exportsOf(root);
    expect(left.includes(`${job.id}.csv`)).toBe(false);
    // Who is told to stop clears away what he began.
    if (signal === 'SIGTERM') expect(left).toEqual([]);

    const second = await serve(root, key);
    for (const { id } of [job, next]) {
      await until(async () => ['done', 'failed'].includes((await jobOf(second, id)).state));
      const { state, file } = await jobOf(second, id);
      expect([state, file?.rows, file?.sha256]).toEqual(['done', ticks, wanted]);
      const bytes = Buffer.from(await (await second.ask(file!.url)).arrayBuffer());
      expect(sha256(bytes)).toBe(wanted);
    }
    expect(exportsOf(root).sort()).toEqual([`${job.id}.csv`, `${next.id}.csv`].sort());
    expect(await second.end('SIGTERM')).toBe(0);
  });
});
