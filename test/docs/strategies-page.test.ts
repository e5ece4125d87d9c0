import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { boundNames, measureNames, strategyLimits } from '../../src/contract/strategy-language.ts';
import { serviceLimits } from '../../src/server/http/connection-limits.ts';
import { opened } from '../archive/scratch.ts';
import { serving } from '../server/serving.ts';
import { alice, as, withTokens } from '../server/users.ts';

// docs/STRATEGIES.md against the service.

const docs = join(import.meta.dirname, '../../docs');
const text = readFileSync(join(docs, 'STRATEGIES.md'), 'utf8');

/** The request bodies on the page, each with its path. */
const sent = [...text.matchAll(/"\$URL(\S+)"[^']*-d '([^']+)'/g)].map(([, path, body]) => [path!, body!] as const);

test('the service accepts the requests of docs/STRATEGIES.md', async () => {
  const service = await serving(opened(), { set: withTokens });
  expect(sent.map(([path]) => path)).toEqual(['/api/v1/strategies', '/api/v1/bots']);
  for (const [path, body] of sent)
    expect((await as(service, alice, 'POST', path, JSON.parse(body) as unknown)).status, path).toBe(201);
});

test('docs/STRATEGIES.md shows the error of the service', async () => {
  const service = await serving(opened(), { set: withTokens });
  const [shown] = [...text.matchAll(/```json\n(\{"type".+?)```/gs)].map(([, json]) => JSON.parse(json!) as unknown);
  const [path, body] = sent[0]!;
  const invalid = body.replace('"window_ms": 3600000, "below"', '"below"');
  expect(invalid).not.toBe(body);
  expect((await as(service, alice, 'POST', path, JSON.parse(invalid) as unknown)).body).toEqual(shown);
});

test('docs/STRATEGIES.md names every measure, bound and limit, and its links have targets', () => {
  for (const name of [...measureNames, ...boundNames, 'category']) expect(text).toContain(`\`${name}\``);
  const { rules, conditions, depth, parameters } = strategyLimits;
  for (const phrase of [`1 to ${rules};`, `depth of ${depth}`, `at most ${conditions}`, `up to ${parameters} numbers`])
    expect(text).toContain(phrase);
  const { strategiesMax, botsMax } = serviceLimits;
  for (const max of [strategiesMax, botsMax]) expect(text).toContain(max.toLocaleString('en'));
  for (const [, target] of text.matchAll(/\]\(([^)#]+)/g)) expect(existsSync(join(docs, target!)), target).toBe(true);
});
