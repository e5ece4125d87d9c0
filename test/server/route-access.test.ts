import { expect, test } from 'vitest';
import { type Access, requireAccess } from '../../src/server/auth/authenticate.ts';
import type { ProblemError } from '../../src/server/http/problem-details.ts';
import type { Principal } from '../../src/server/workspace/owner.ts';
import { opened } from '../archive/scratch.ts';
import { serving } from './serving.ts';

test('the health check requires no credential', async () => {
  const { json } = await serving(opened());
  const { status, body } = await json('/healthz', { headers: { authorization: '' } });
  expect([status, body]).toEqual([200, { status: 'ok' }]);
});

test('an unknown path gives 404, and 401 without a key', async () => {
  const { json } = await serving(opened());
  const { status, headers, body } = await json('/api/v1/nothing');
  expect(status).toBe(404);
  expect(headers.get('content-type')).toContain('application/problem+json');
  expect(body).toMatchObject({ status: 404, title: 'Not found' });
  const refused = await json('/api/v1/nothing', { headers: { authorization: '' } });
  expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
});

const key: Principal = {
  kind: 'key',
  id: 'a',
  name: 'a',
  requestsPerMinute: null,
  scopes: ['read', 'export'],
  datasets: null,
};
const user: Principal = { kind: 'user', user: 'alice', workspace: null, scopes: [] };
const researcher: Principal = { ...user, scopes: ['other', 'research'] };

test.each<[Access, boolean[]]>([
  ['open', [true, true, true]],
  ['key', [true, false, false]],
  ['either', [true, false, false]],
  ['any', [true, true, true]],
  ['user', [false, true, true]],
  ['research', [false, false, true]],
])('access %s admits key, user, researcher: %j', (access, allowed) => {
  const judged = [key, user, researcher].map((principal) => {
    try {
      requireAccess(principal, access);
      return true;
    } catch (error) {
      expect((error as ProblemError).status).toBe(403);
      return false;
    }
  });
  expect(judged).toEqual(allowed);
});
