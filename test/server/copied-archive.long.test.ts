import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { UsageError } from '../../src/base/errors.ts';
import { opened, scratchFolder } from '../archive/scratch.ts';
import { asking, backtestPath, brief, createTradedArchive, endless, type Kept, saved } from './backtesting.ts';

/** Copies an archive, including its private folder. */
function copyOf(archive: Archive): string {
  const root = join(scratchFolder(), 'copy');
  cpSync(archive.layout.root, root, { recursive: true });
  return root;
}

test('a copy of a served archive cannot be served with the same database', async () => {
  const archive = await createTradedArchive(50_000);
  const database = { kind: 'sqlite', path: `${scratchFolder()}/service.sqlite` } as const;
  const first = await asking(archive, { database });
  const { body } = await first.alice.post({ ...endless, save: true });
  await first.alice.becomes(body, 'running');
  const { started_at } = await first.alice.becomes(body, 'running');
  const root = copyOf(archive);
  const refused = await asking(opened({ root }), { database }).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(UsageError);
  expect((refused as Error).message).toMatch(/is a copy of another archive .* remove its \.oddslake\/lease-id/);
  expect((await first.alice.json<Kept>(`${backtestPath}/${body.id}`)).body).toMatchObject({
    state: 'running',
    started_at,
  });

  // With its own lease ID the copy has its own jobs.
  rmSync(join(root, '.oddslake/lease-id'));
  const second = await asking(opened({ root }), { database });
  expect((await second.alice.json(`${backtestPath}/${body.id}`)).status).toBe(404);
  const { body: own } = await second.alice.post(brief);
  expect((await second.alice.becomes(own, 'done', 'failed')).state).toBe('done');
  expect((await first.alice.json(`${backtestPath}/${own.id}`)).status).toBe(404);
});

test('a moved archive keeps its jobs once the old service has stopped', async () => {
  const archive = await createTradedArchive();
  const database = { kind: 'sqlite', path: `${scratchFolder()}/service.sqlite` } as const;
  const first = await asking(archive, { database });
  const { body } = await first.alice.post(saved);
  await first.alice.becomes(body, 'done');
  await first.stop();
  const second = await asking(opened({ root: copyOf(archive) }), { database });
  expect((await second.alice.json<Kept>(`${backtestPath}/${body.id}`)).body.state).toBe('done');
});
