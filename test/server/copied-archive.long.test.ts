import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/open-archive.ts';
import { UsageError } from '../../src/base/errors.ts';
import { opened, scratchFolder } from '../archive/scratch.ts';
import { asking, brief, endless, type Kept, kept, saved, traded } from './backtesting.ts';

/** All of an archive, what it keeps for itself included. */
function copyOf(archive: Archive): string {
  const root = join(scratchFolder(), 'copy');
  cpSync(archive.layout.root, root, { recursive: true });
  return root;
}

test('a copy of an archive that is being served is not served with the same database, and takes none of its jobs', async () => {
  const archive = await traded(50_000);
  const database = { kind: 'sqlite', path: `${scratchFolder()}/service.sqlite` } as const;
  const first = await asking(archive, { database });
  const { body } = await first.alice.post({ ...endless, save: true });
  await first.alice.becomes(body, 'running');
  const { started_at } = await first.alice.becomes(body, 'running');
  const root = copyOf(archive);
  const refused = await asking(opened({ root }), { database }).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(UsageError);
  expect((refused as Error).message).toMatch(/is a copy of another one .* Remove \.oddslake\/exports\/place/);
  expect((await first.alice.json<Kept>(`${kept}/${body.id}`)).body).toMatchObject({ state: 'running', started_at });

  // With a word of its own it has its own jobs.
  rmSync(join(root, '.oddslake/exports/place'));
  const second = await asking(opened({ root }), { database });
  expect((await second.alice.json(`${kept}/${body.id}`)).status).toBe(404);
  const { body: own } = await second.alice.post(brief);
  expect((await second.alice.becomes(own, 'done', 'failed')).state).toBe('done');
  expect((await first.alice.json(`${kept}/${own.id}`)).status).toBe(404);
});

test('an archive that was moved has its jobs still, once the service of the one before has stopped', async () => {
  const archive = await traded();
  const database = { kind: 'sqlite', path: `${scratchFolder()}/service.sqlite` } as const;
  const first = await asking(archive, { database });
  const { body } = await first.alice.post(saved);
  await first.alice.becomes(body, 'done');
  await first.stop();
  const second = await asking(opened({ root: copyOf(archive) }), { database });
  expect((await second.alice.json<Kept>(`${kept}/${body.id}`)).body.state).toBe('done');
});
