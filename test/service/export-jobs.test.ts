import { createHash } from 'node:crypto';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { datasets } from '../../src/archive/datasets.ts';
import { decodeRows } from '../../src/archive/parquet.ts';
import type { Clock } from '../../src/core/clock.ts';
import { answer, append, clockAt, day0, hourMs, now, opened, publishNow } from '../archive/scratch.ts';
import { type Serving, serving } from './serving.ts';

const path = '/api/v1/export';

interface Job {
  readonly id: string;
  readonly state: string;
  readonly finished_at: number | null;
  readonly expires_at: number | null;
  readonly error: string | null;
  readonly file: { url: string; bytes: number; sha256: string; rows: number; generation: number } | null;
}

async function archived() {
  const archive = opened({ parts: 2 });
  for (const symbol of ['KX A', 'KX B'])
    append(
      archive,
      answer(
        symbol,
        Array.from({ length: 300 }, (_, i) => [day0 + i * 60_000, (i % 100) / 100]),
      ),
    );
  await publishNow(archive);
  return archive;
}

const post = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
  ...{ method: 'POST', body: JSON.stringify(body) },
  headers: { 'content-type': 'application/json', ...headers },
});

const ticks = { dataset: 'ticks', format: 'csv' };

/** The job once it is in one of these states. */
async function becomes({ json }: Serving, { id }: Pick<Job, 'id'>, ...states: string[]): Promise<Job> {
  for (;;) {
    const { body } = await json<Job>(`${path}/jobs/${id}`);
    if (states.includes(body.state)) return body;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const errorsOf = (body: Record<string, unknown>): string[] =>
  ((body.errors ?? []) as { name: string }[]).map(({ name }) => name).sort();

const exportsOf = (root: string): string[] => readdirSync(join(root, '.oddslake/exports')).filter((n) => n !== 'place');

describe('an export', () => {
  test('is asked for, followed and fetched', async () => {
    const service = await serving(await archived());
    const { ask, json } = service;
    const asked = { dataset: 'ticks', symbols: ['KX B', 'KX B'], from: day0, to: day0 + hourMs, format: 'parquet' };
    const { status, headers, body } = await json<Job>(path, post(asked));
    expect(status).toBe(202);
    expect(headers.get('location')).toBe(`${path}/jobs/${body.id}`);
    expect(body).toEqual({
      ...{ id: body.id, ...asked, symbols: ['KX B'], state: 'waiting', progress: { rows_done: 0, rows_total: null } },
      ...{ created_at: now, finished_at: null, expires_at: null, file: null, error: null },
    });
    const done = await becomes(service, body, 'done', 'failed');
    expect(done).toMatchObject({
      ...{ state: 'done', error: null, progress: { rows_done: 60, rows_total: 60 } },
      ...{ finished_at: now, expires_at: now + 24 * hourMs, file: { rows: 60, generation: 1 } },
    });
    const { url, bytes, sha256 } = done.file!;
    const answered = await ask(url);
    const file = Buffer.from(await answered.arrayBuffer());
    expect([file.length, createHash('sha256').update(file).digest('hex')]).toEqual([bytes, sha256]);
    expect(decodeRows(datasets.ticks, file).map(([symbol, t]) => [symbol, t])).toEqual(
      Array.from({ length: 60 }, (_, i) => ['KX B', day0 + i * 60_000]),
    );
    expect(Object.fromEntries(answered.headers)).toMatchObject({
      ...{ etag: `"${sha256}"`, 'content-type': 'application/vnd.apache.parquet', 'accept-ranges': 'bytes' },
      'content-disposition': `attachment; filename="ticks-${body.id}.parquet"`,
    });
    const part = await ask(url, { headers: { range: 'bytes=0-3', 'if-match': `"${sha256}"` } });
    expect([part.status, await part.text()]).toEqual([206, 'PAR1']);
    expect((await ask(url, { method: 'HEAD' })).headers.get('content-length')).toBe(String(bytes));
    expect((await ask(url, { headers: { 'if-none-match': `"${sha256}"` } })).status).toBe(304);
  });

  test('comes in every format, of any dataset, also of no rows', async () => {
    const service = await serving(await archived());
    const types = { csv: 'text/csv', ndjson: 'application/x-ndjson', arrow: 'application/vnd.apache.arrow.file' };
    for (const [format, type] of Object.entries(types)) {
      const asked = { dataset: 'symbols', format };
      const done = await becomes(service, (await service.json<Job>(path, post(asked))).body, 'done', 'failed');
      const answered = await service.ask(done.file!.url);
      expect([done.file!.rows, answered.status, answered.headers.get('content-type')]).toEqual([
        ...[2, 200],
        expect.stringContaining(type),
      ]);
    }
    const none = { dataset: 'ticks', format: 'ndjson', to: 1 };
    const empty = await becomes(service, (await service.json<Job>(path, post(none))).body, 'done', 'failed');
    expect(empty.file).toMatchObject({ rows: 0, bytes: 0 });
    expect(await (await service.ask(empty.file!.url)).text()).toBe('');
    expect((await service.ask(empty.file!.url, { headers: { range: 'bytes=0-' } })).status).toBe(416);
  });

  test('whose files are damaged fails and says so, without paths', async () => {
    const archive = await archived();
    const { path: part } = archive.manifest().datasets.ticks.files[0]!;
    writeFileSync(join(archive.layout.root, part), 'not what it was');
    const service = await serving(archive);
    const failed = await becomes(service, (await service.json<Job>(path, post(ticks))).body, 'done', 'failed');
    expect(failed).toMatchObject({ state: 'failed', file: null, finished_at: now });
    expect(failed.error).toBe('Files that it needs are damaged in the archive. Ask again once they are repaired.');
    expect((await service.ask(`${path}/jobs/${failed.id}/file`)).status).toBe(409);
  });

  test('larger than what is left fails; once nothing is left none is begun, until one is removed', async () => {
    const archive = await archived();
    const service = await serving(archive, { set: ['service.exports.bytes_max=20000'] });
    const one = async (asked: object) =>
      becomes(service, (await service.json<Job>(path, post(asked))).body, 'done', 'failed');
    const first = await one({ ...ticks, symbols: ['KX A'] });
    expect(first.state).toBe('done');
    const second = await one(ticks);
    expect(second).toMatchObject({ state: 'failed', error: expect.stringContaining('larger than what is left') });
    expect(exportsOf(archive.layout.root)).toEqual([`${first.id}.csv`]);
    const full = await serving(archive, { set: ['service.exports.bytes_max=100'] });
    const small = (await full.json<Job>(path, post({ dataset: 'symbols', symbols: ['KX A'], format: 'csv' }))).body;
    expect((await becomes(full, small, 'done', 'failed')).state).toBe('failed');
  });

  test('that its bytes leave no room for is 503 with the time that the first goes', async () => {
    const archive = await archived();
    const set = ['service.exports.bytes_max=11000'];
    const service = await serving(archive, { set });
    const made: Job[] = [];
    for (;;) {
      const { status, headers, body } = await service.json<Job>(
        path,
        post({ ...ticks, symbols: ['KX A'], to: day0 + hourMs }),
      );
      if (status === 503) {
        expect(headers.get('retry-after')).toBe(String(24 * 3600));
        break;
      }
      made.push(await becomes(service, body, 'done', 'failed'));
      if (made.at(-1)!.state === 'done') continue;
      // What is left takes only a smaller one, and then nothing.
      const left = 11_000 - made.reduce((sum, { file }) => sum + (file?.bytes ?? 0), 0);
      expect(left).toBeLessThan(made[0]!.file!.bytes);
      break;
    }
    expect(made[0]!.state).toBe('done');
    expect((await service.ask(`${path}/jobs/${made[0]!.id}`, { method: 'DELETE' })).status).toBe(204);
    const again = await service.json<Job>(path, post({ ...ticks, symbols: ['KX A'], to: day0 + hourMs }));
    expect(again.status).toBe(202);
    expect((await becomes(service, again.body, 'done', 'failed')).state).toBe('done');
  });
});
