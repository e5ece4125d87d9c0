import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { answer, append, day0, publishNow } from '../archive/scratch.ts';
import { waitFor } from '../harness/limits.ts';
import { madeOnce } from './made-once.ts';
import type { Serving } from './serving.ts';

// Requests and helpers for the tests of export jobs.

export const path = '/api/v1/export';

export interface Job {
  readonly id: string;
  readonly state: string;
  readonly finished_at: number | null;
  readonly expires_at: number | null;
  readonly error: string | null;
  readonly file: { url: string; bytes: number; sha256: string; rows: number; generation: number } | null;
}

export const archived = madeOnce(
  async (archive) => {
    for (const symbol of ['KX A', 'KX B'])
      append(
        archive,
        answer(
          symbol,
          Array.from({ length: 300 }, (_, i) => [day0 + i * 60_000, (i % 100) / 100]),
        ),
      );
    await publishNow(archive);
  },
  { parts: 2 },
);

export const post = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  body: JSON.stringify(body),
  headers: { 'content-type': 'application/json', ...headers },
});

export const other = { name: 'other', expiresAt: null, requestsPerMinute: 1_000_000 };
export const ticks = { dataset: 'ticks', format: 'csv' };

/** Waits until the job is in one of these states. */
export async function becomes({ json }: Serving, { id }: Pick<Job, 'id'>, ...states: string[]): Promise<Job> {
  return await waitFor(
    async () => {
      const { body } = await json<Job>(`${path}/jobs/${id}`);
      return states.includes(body.state) && body;
    },
    `an export that is ${states.join(' or ')}`,
  );
}

export const errorsOf = (body: Record<string, unknown>): string[] =>
  ((body.errors ?? []) as { name: string }[]).map(({ name }) => name).sort();

export const exportsOf = (root: string): string[] =>
  readdirSync(join(root, '.oddslake/exports')).filter((n) => n !== 'place');
