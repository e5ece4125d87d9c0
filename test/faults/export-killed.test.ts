import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { answer, append, day0, opened, publishNow } from '../archive/scratch.ts';
import { folder, run } from '../e2e/lake.ts';
import { keyOf, type ServeProcess, serve, sha256, sha256Of } from '../e2e/served-archive.ts';
import { limitMs, MachineTooSlow, waitFor } from '../harness/limits.ts';

interface Job {
  readonly id: string;
  readonly state: string;
  readonly file: { readonly url: string; readonly sha256: string; readonly rows: number } | null;
}

const ticks = 300_000;

/** An archive whose export takes some time, and the expected export of all its ticks. */
async function createLargeArchive() {
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

async function requestExport(service: ServeProcess): Promise<Job> {
  const response = await service.ask('/api/v1/export', {
    method: 'POST',
    body: JSON.stringify({ dataset: 'ticks', format: 'csv' }),
    headers: { 'content-type': 'application/json' },
  });
  expect(response.status).toBe(202);
  return (await response.json()) as Job;
}

const exportsOf = (root: string): string[] =>
  readdirSync(join(root, '.oddslake/exports')).filter((name) => name !== 'place');

/** Whether the export file of a job is being written. */
const hasBegun = (root: string, { id }: Job): boolean => exportsOf(root).some((name) => name.startsWith(`.${id}`));

/** Attempts to stop a service during an export; on a busy machine the stop may come too late. */
const attemptsMax = 50;

describe('a service that stops during an export', () => {
  test.each([
    ['SIGKILL', null],
    ['SIGTERM', 0],
  ] as const)('by %s completes the export after its next start', async (signal, code) => {
    const { root, wanted, key } = await createLargeArchive();
    const jobs: Job[] = [];
    for (let attempt = 1; ; attempt++) {
      const first = await serve(root, key);
      jobs.push(await requestExport(first), await requestExport(first));
      await waitFor(() => hasBegun(root, jobs.at(-2)!), 'the beginning of the file');
      expect(await first.end(signal)).toBe(code);
      if (jobs.some(({ id }) => !exportsOf(root).includes(`${id}.csv`))) break;
      if (attempt === attemptsMax)
        throw new MachineTooSlow(`stopped during an export after ${attempt} attempts`, limitMs);
    }
    // A service that is asked to stop removes its drafts.
    const drafts = exportsOf(root).filter((name) => name.startsWith('.'));
    if (signal === 'SIGTERM') expect(drafts).toEqual([]);

    const second = await serve(root, key);
    for (const { id } of jobs) {
      await waitFor(async () => ['done', 'failed'].includes((await jobOf(second, id)).state), 'the end of the job');
      const { state, file } = await jobOf(second, id);
      expect([state, file?.rows, file?.sha256]).toEqual(['done', ticks, wanted]);
      const bytes = Buffer.from(await (await second.ask(file!.url)).arrayBuffer());
      expect(sha256(bytes)).toBe(wanted);
    }
    expect(exportsOf(root).sort()).toEqual(jobs.map(({ id }) => `${id}.csv`).sort());
    expect(await second.end('SIGTERM')).toBe(0);
  });
});
