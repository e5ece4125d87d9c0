import { describe, expect, test } from 'vitest';
import { archived, becomes, exportsOf, type Job, path, post, ticks } from './exporting.ts';
import { serving } from './serving.ts';

describe('an export', () => {
  test('supports every format and dataset, also without rows', async () => {
    const service = await serving(await archived());
    const types = { csv: 'text/csv', ndjson: 'application/x-ndjson', arrow: 'application/vnd.apache.arrow.file' };
    for (const [format, type] of Object.entries(types)) {
      const asked = { dataset: 'symbols', format };
      const done = await becomes(service, (await service.json<Job>(path, post(asked))).body, 'done', 'failed');
      const answered = await service.ask(done.file!.url);
      expect([done.file!.rows, answered.status, answered.headers.get('content-type')]).toEqual([
        2,
        200,
        expect.stringContaining(type),
      ]);
    }
    const none = { dataset: 'ticks', format: 'ndjson', to: 1 };
    const empty = await becomes(service, (await service.json<Job>(path, post(none))).body, 'done', 'failed');
    expect(empty.file).toMatchObject({ rows: 0, bytes: 0 });
    expect(await (await service.ask(empty.file!.url)).text()).toBe('');
    expect((await service.ask(empty.file!.url, { headers: { range: 'bytes=0-' } })).status).toBe(416);
  });

  test('fails if larger than the space left; without space, requests are rejected until one is removed', async () => {
    const archive = await archived();
    const one = { ...ticks, symbols: ['KX A'] };
    const measured = await serving(archive);
    const { bytes } = (await becomes(measured, (await measured.json<Job>(path, post(one))).body, 'done')).file!;
    await measured.stop();

    // Another database, so that only its jobs have files here.
    const service = await serving(archive, { set: [`service.exports.bytes_max=${bytes}`] });
    const tooLarge = await becomes(service, (await service.json<Job>(path, post(ticks))).body, 'done', 'failed');
    expect(tooLarge.error).toMatch(/exceed the space left/);
    expect(exportsOf(archive.layout.root)).toEqual([]);
    const fits = await becomes(service, (await service.json<Job>(path, post(one))).body, 'done', 'failed');
    expect([fits.state, fits.file?.bytes]).toEqual(['done', bytes]);

    const refused = await service.json(path, post(one));
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, String(24 * 3600)]);
    expect((await service.ask(`${path}/jobs/${fits.id}`, { method: 'DELETE' })).status).toBe(204);
    expect(exportsOf(archive.layout.root)).toEqual([]);
    expect((await service.json(path, post(one))).status).toBe(202);
  });
});
