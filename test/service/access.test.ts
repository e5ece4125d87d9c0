import { expect, test } from 'vitest';
import { opened } from '../archive/scratch.ts';
import { serving } from './serving.ts';

test('everybody may ask whether the service is there', async () => {
  const { json } = await serving(opened());
  const { status, body } = await json('/healthz', { headers: { authorization: '' } });
  expect([status, body]).toEqual([200, { status: 'ok' }]);
});

test('what is not there is told as a problem, to holders of a key only', async () => {
  const { json } = await serving(opened());
  const { status, headers, body } = await json('/api/v1/nothing');
  expect(status).toBe(404);
  expect(headers.get('content-type')).toContain('application/problem+json');
  expect(body).toMatchObject({ status: 404, title: 'Not found' });
  const refused = await json('/api/v1/nothing', { headers: { authorization: '' } });
  expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
});
