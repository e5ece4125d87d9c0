import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { datasets } from '../../src/archive/format/datasets.ts';
import { decodeRows } from '../../src/archive/parquet/rows.ts';
import type { Clock } from '../../src/base/ports.ts';
import { clockAt, day0, hourMs, now } from '../archive/scratch.ts';
import { archived, becomes, exportsOf, type Job, other, path, post, ticks } from './exporting.ts';
import { holdJobs, serving } from './serving.ts';

describe('an export', () => {
  test('is created, followed and downloaded', async () => {
    const service = await serving(await archived());
    const { ask, json } = service;
    const asked = { dataset: 'ticks', symbols: ['KX B', 'KX B'], from: day0, to: day0 + hourMs, format: 'parquet' };
    const { status, headers, body } = await json<Job>(path, post(asked));
    expect(status).toBe(202);
    expect(headers.get('location')).toBe(`${path}/jobs/${body.id}`);
    expect(body).toEqual({
      id: body.id,
      ...asked,
      symbols: ['KX B'],
      csv_safe: false,
      state: 'waiting',
      progress: { rows_done: 0, rows_total: null },
      created_at: now,
      finished_at: null,
      expires_at: null,
      file: null,
      error: null,
    });
    const done = await becomes(service, body, 'done', 'failed');
    expect(done).toMatchObject({
      state: 'done',
      error: null,
      progress: { rows_done: 60, rows_total: 60 },
      finished_at: now,
      expires_at: now + 24 * hourMs,
      file: { rows: 60, generation: 1 },
    });
    const { url, bytes, sha256 } = done.file!;
    const answered = await ask(url);
    const file = Buffer.from(await answered.arrayBuffer());
    expect([file.length, createHash('sha256').update(file).digest('hex')]).toEqual([bytes, sha256]);
    expect(decodeRows(datasets.ticks.columns, file).map(([symbol, t]) => [symbol, t])).toEqual(
      Array.from({ length: 60 }, (_, i) => ['KX B', day0 + i * 60_000]),
    );
    expect(Object.fromEntries(answered.headers)).toMatchObject({
      etag: `"${sha256}"`,
      'content-type': 'application/vnd.apache.parquet',
      'accept-ranges': 'bytes',
      'content-disposition': `attachment; filename="ticks-${body.id}.parquet"`,
    });
    const part = await ask(url, { headers: { range: 'bytes=0-3', 'if-match': `"${sha256}"` } });
    expect([part.status, await part.text()]).toEqual([206, 'PAR1']);
    expect((await ask(url, { method: 'HEAD' })).headers.get('content-length')).toBe(String(bytes));
    expect((await ask(url, { headers: { 'if-none-match': `"${sha256}"` } })).status).toBe(304);
  });

  test('fails if files are damaged, with a reason that contains no paths', async () => {
    const archive = await archived();
    const { path: part } = archive.readManifest().datasets.ticks.files[0]!;
    writeFileSync(join(archive.layout.root, part), 'not what it was');
    const service = await serving(archive);
    const failed = await becomes(service, (await service.json<Job>(path, post(ticks))).body, 'done', 'failed');
    expect(failed).toMatchObject({ state: 'failed', file: null, finished_at: now });
    expect(failed.error).toBe('Files of the slice are damaged in the archive. Try again once they are repaired.');
    expect((await service.ask(`${path}/jobs/${failed.id}/file`)).status).toBe(409);
  });
});

describe('jobs', () => {
  test('are listed newest first, for their own key only', async () => {
    const service = await serving(await archived());
    const ids: string[] = [];
    for (let i = 0; i < 3; i++)
      ids.unshift((await service.json<Job>(path, post({ dataset: 'symbols', format: 'csv' }))).body.id);
    const list = async (query = '', init?: RequestInit) =>
      (await service.json<{ jobs: Job[]; count: number; total: number }>(`${path}/jobs${query}`, init)).body;
    const all = await list();
    expect([all.jobs.map(({ id }) => id), all.count, all.total]).toEqual([ids, 3, 3]);
    const some = await list('?limit=2');
    expect([some.jobs.map(({ id }) => id), some.count, some.total]).toEqual([ids.slice(0, 2), 2, 3]);
    for (const bad of ['?limit=0', '?limit=x', '?limit=', '?page=2'])
      expect([bad, (await service.ask(`${path}/jobs${bad}`)).status]).toEqual([bad, 400]);

    const { key } = await service.workspace.createKey(other, now);
    const headers = { authorization: `Bearer ${key}` };
    expect(await list('', { headers })).toMatchObject({ jobs: [], count: 0, total: 0 });
    await becomes(service, { id: ids[0]! }, 'done');
    for (const at of [`${path}/jobs/${ids[0]}`, `${path}/jobs/${ids[0]}/file`])
      expect([at, (await service.ask(at, { headers })).status]).toEqual([at, 404]);
    expect((await service.ask(`${path}/jobs/${ids[0]}`, { method: 'DELETE', headers })).status).toBe(404);
    expect((await service.ask(`${path}/jobs/${ids[0]}/file`)).status).toBe(200);
    for (const id of ['nothing', 'x%27', '..%2f..%2fplace'])
      expect([id, [400, 404].includes((await service.ask(`${path}/jobs/${id}/file`)).status)]).toEqual([id, true]);
  });

  test('can be removed while they wait or run, and leave no file', async () => {
    const archive = await archived();
    const letGo = holdJobs(archive, 'exports');
    const service = await serving(archive);
    const asked = async () => (await service.json<Job>(path, post(ticks))).body;
    const [running, waiting] = [await asked(), await asked()];
    expect((await service.ask(`${path}/jobs/${running.id}/file`)).status).toBe(409);
    const drop = async ({ id }: Job) => (await service.ask(`${path}/jobs/${id}`, { method: 'DELETE' })).status;
    expect([await drop(waiting), await drop(waiting)]).toEqual([204, 404]);
    letGo();
    const last = await asked();
    // The job may already be done, and is then removed with its file.
    await becomes(service, running, 'running', 'done');
    expect([await drop(running), await drop(running)]).toEqual([204, 404]);
    await becomes(service, last, 'done');
    expect(exportsOf(archive.layout.root)).toEqual([`${last.id}.csv`]);
    expect((await service.ask(`${path}/jobs/${running.id}`)).status).toBe(404);
  });

  test('are removed with their files when they expire', async () => {
    const archive = await archived();
    let nowMs = now;
    const clock: Clock = { ...clockAt(now), nowMs: () => nowMs };
    const service = await serving(archive, { clock, set: ['service.exports.keep_hours=2'] });
    const done = await becomes(service, (await service.json<Job>(path, post(ticks))).body, 'done');
    expect(done.expires_at).toBe(now + 2 * hourMs);
    nowMs = now + 2 * hourMs - 1;
    expect((await service.ask(done.file!.url)).status).toBe(200);
    nowMs = now + 2 * hourMs;
    expect((await service.ask(done.file!.url)).status).toBe(404);
    expect((await service.json(`${path}/jobs`)).body).toMatchObject({ jobs: [], total: 0 });
    // The next job cleans up expired ones.
    const next = await becomes(service, (await service.json<Job>(path, post(ticks))).body, 'done');
    expect(exportsOf(archive.layout.root)).toEqual([`${next.id}.csv`]);
  });

  test('give 503 if their file was modified or is missing', async () => {
    const archive = await archived();
    const service = await serving(archive);
    const done = await becomes(service, (await service.json<Job>(path, post(ticks))).body, 'done');
    const file = join(archive.layout.root, '.oddslake/exports', `${done.id}.csv`);
    writeFileSync(file, 'x'.repeat(done.file!.bytes));
    expect((await service.ask(done.file!.url)).status).toBe(503);
    archive.disk.remove(file);
    expect((await service.ask(done.file!.url)).status).toBe(503);
  });
});
