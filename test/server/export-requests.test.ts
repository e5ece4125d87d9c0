import { describe, expect, test } from 'vitest';
import { now, opened } from '../archive/scratch.ts';
import { archived, becomes, errorsOf, type Job, other, path, post, ticks } from './exporting.ts';
import { holdJobs, serving } from './serving.ts';

describe('a request for an export', () => {
  test('is rejected with the names of the invalid fields', async () => {
    const { json } = await serving(await archived());
    const { symbols, ...good } = { ...ticks, symbols: ['KX A'] };
    for (const [body, names] of [
      [{}, ['dataset', 'format']],
      [{ ...good, dataset: 'deals' }, ['dataset']],
      [{ ...good, dataset: '__proto__' }, ['dataset']],
      [{ ...good, format: 'xlsx' }, ['format']],
      [{ ...good, more: 1 }, ['more']],
      [{ ...good, format: 'ndjson', csv_safe: true }, ['csv_safe']],
      [{ ...good, csv_safe: 'true' }, ['csv_safe']],
      [{ ...good, from: -1 }, ['from']],
      [{ ...good, from: 1.5 }, ['from']],
      [{ ...good, from: '1' }, ['from']],
      [{ ...good, to: 1e300 }, ['to']],
      [{ ...good, from: 5, to: 5 }, ['to']],
      [{ ...good, dataset: 'symbols', from: 5, to: 6 }, ['from', 'to']],
      [{ ...good, symbols: 'KX A' }, ['symbols']],
      [{ ...good, symbols: [''] }, ['symbols[0]']],
      [{ ...good, symbols: [...symbols, 'NOBODY', "' or 1=1 --"] }, ['symbols[1]', 'symbols[2]']],
      [{ ...good, symbols: Array.from({ length: 1001 }, () => 'KX A') }, ['symbols']],
    ] as const) {
      const { status, body: told } = await json(path, post(body));
      expect([JSON.stringify(body).slice(0, 80), status, errorsOf(told)]).toEqual([
        JSON.stringify(body).slice(0, 80),
        400,
        names,
      ]);
    }
  });

  test('must be JSON of limited size', async () => {
    const { ask } = await serving(opened());
    const status = async (body: string, type: string) =>
      (await ask(path, { method: 'POST', body, headers: { 'content-type': type } })).status;
    expect(await status('{"dataset":', 'application/json')).toBe(400);
    expect(await status('null', 'application/json')).toBe(400);
    expect(await status(JSON.stringify(ticks), 'application/xml')).toBe(415);
    expect(await status(JSON.stringify({ ...ticks, more: ' '.repeat(70_000) }), 'application/json')).toBe(413);
    expect((await ask(path, { method: 'POST', headers: { authorization: '' } })).status).toBe(401);
  });

  test('creates no second job for a repeated idempotency key', async () => {
    const service = await serving(await archived());
    const headers = { 'idempotency-key': 'once' };
    const first = await service.json<Job>(path, post(ticks, headers));
    const second = await service.json<Job>(path, post(ticks, headers));
    expect([second.status, second.body.id]).toEqual([202, first.body.id]);
    for (const change of [{ format: 'arrow' }, { csv_safe: true }])
      expect((await service.json(path, post({ ...ticks, ...change }, headers))).status).toBe(422);
    expect((await service.json(path, post(ticks, { 'idempotency-key': 'x'.repeat(256) }))).status).toBe(400);
    const { key } = await service.workspace.createKey(other, now);
    const another = await service.json<Job>(path, post(ticks, { ...headers, authorization: `Bearer ${key}` }));
    expect([another.status, another.body.id === first.body.id]).toEqual([202, false]);
  });

  test('is rejected with 429 if the key has too many unfinished exports', async () => {
    const archive = await archived();
    const letGo = holdJobs(archive, 'exports');
    const service = await serving(archive, { set: ['service.exports.waiting_max=1'] });
    const first = (await service.json<Job>(path, post(ticks))).body;
    const refused = await service.json(path, post(ticks));
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '60']);
    const { key } = await service.workspace.createKey(other, now);
    letGo();
    expect((await service.json(path, post(ticks, { authorization: `Bearer ${key}` }))).status).toBe(202);
    await becomes(service, first, 'done');
    expect((await service.json(path, post(ticks))).status).toBe(202);
  });
});
