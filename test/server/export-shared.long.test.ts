import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { opened, scratchFolder } from '../archive/scratch.ts';
import { archived, becomes, exportsOf, type Job, path, post, ticks } from './exporting.ts';
import { restless, serving } from './serving.ts';

test('two services over one archive lose no exports, even with equal process IDs', async () => {
  const archive = await archived();
  const { root } = archive.layout;
  const file = `${scratchFolder()}/shared.sqlite`;
  const database = { kind: 'sqlite', path: file } as const;
  const first = await serving(archive, { database, clock: restless });
  const second = await serving(opened({ root }), { database, clock: restless });
  const other = { headers: { authorization: `Bearer ${first.key}` } };
  const jobs: Job[] = [];
  for (let i = 0; i < 4; i++) {
    jobs.push((await first.json<Job>(path, post(ticks))).body);
    // An idle service looks for jobs.
    const { body } = await second.json<Job>(path, post({ ...ticks, format: 'ndjson' }, other.headers));
    jobs.push(body);
  }
  for (const job of jobs) {
    const { state, file } = await becomes(first, job, 'done', 'failed');
    expect(state).toBe('done');
    const answer = await second.ask(file!.url, other);
    expect(answer.status).toBe(200);
    const bytes = Buffer.from(await answer.arrayBuffer());
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(file!.sha256);
  }
  expect(exportsOf(root).sort()).toEqual(jobs.map(({ id }, i) => `${id}.${i % 2 === 0 ? 'csv' : 'ndjson'}`).sort());
});
