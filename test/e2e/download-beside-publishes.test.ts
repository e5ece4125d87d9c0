import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { answer, append, day0, opened, publishNow } from '../archive/scratch.ts';
import { waitFor } from '../harness/limits.ts';
import { folder } from './lake.ts';
import { keyOf, serve, sha256 } from './served-archive.ts';

const ticks = 60_000;
const url = '/api/v1/export/files/ticks/2026-06-01/part-00.parquet';

/** An archive with one part file that grows with every publish, and all its versions by hash. */
async function growing() {
  const root = folder();
  const archive = opened({ root, parts: 1 });
  const versions = new Map<string, Buffer>();
  let generation = 0;
  async function publishNext(): Promise<string> {
    generation++;
    const pairs = Array.from(
      { length: generation === 1 ? ticks : 500 },
      (_, i) =>
        [day0 + (generation === 1 ? i * 1000 : ticks * 1000 + generation * 1e6 + i), Math.sin(i * generation)] as const,
    );
    append(archive, answer('KX A', pairs));
    await publishNow(archive);
    const bytes = readFileSync(join(root, 'ticks/date=2026-06-01/part-00.parquet'));
    versions.set(sha256(bytes), bytes);
    return `"${sha256(bytes)}"`;
  }
  await publishNext();
  return { root, versions, publishNext, key: await keyOf(root) };
}

const bodyOf = async (response: Response): Promise<Buffer> => Buffer.from(await response.arrayBuffer());
const tagOf = (response: Response): string => response.headers.get('etag')!.replaceAll('"', '');

/** Both ways of serving: from memory, and from an open descriptor. */
describe.each([
  ['memory', []],
  ['the disk', ['--set', 'service.cache_bytes_max=0']],
])('during publishes, from %s,', (_way, flags) => {
  test('a download in progress keeps its version, and its ranges then get 412', async () => {
    const { root, publishNext, versions, key } = await growing();
    const service = await serve(root, key, ...flags);
    const response = await service.ask(url);
    const old = tagOf(response);
    const fresh = await publishNext();
    expect(fresh).not.toBe(`"${old}"`);
    // Its headers arrive before the publish, most of its body after.
    expect(sha256(await bodyOf(response))).toBe(old);
    const range = { range: 'bytes=100-199' };
    expect((await service.ask(url, { headers: { ...range, 'if-match': `"${old}"` } })).status).toBe(412);
    const stale = await service.ask(url, { headers: { ...range, 'if-match': fresh } });
    expect([stale.status, await bodyOf(stale)]).toEqual([206, versions.get(tagOf(stale))!.subarray(100, 200)]);
    const again = await service.ask(url, { headers: { ...range, 'if-range': `"${old}"` } });
    expect([again.status, again.headers.get('etag'), sha256(await bodyOf(again))]).toEqual([
      200,
      fresh,
      fresh.replaceAll('"', ''),
    ]);
  });

  test('every response has the bytes of one version, with any kind of request', async () => {
    const { root, publishNext, versions, key } = await growing();
    const service = await serve(root, key, ...flags);
    let isOver = false;
    const seen: { readonly tag: string; readonly body: Buffer; readonly first: number }[] = [];
    const refused: number[] = [];

    const response = async (): Promise<void> => {
      while (!isOver) {
        const response = await service.ask(url);
        expect(response.status).toBe(200);
        seen.push({ tag: tagOf(response), body: await bodyOf(response), first: 0 });
      }
    };
    const inRanges = async (ifMatch: boolean): Promise<void> => {
      while (!isOver) {
        const head = await service.ask(url, { method: 'HEAD' });
        const [tag, size] = [tagOf(head), Number(head.headers.get('content-length'))];
        const pieces: Buffer[] = [];
        for (let first = 0; first < size; first += Math.ceil(size / 5)) {
          const range = `bytes=${first}-${Math.min(size, first + Math.ceil(size / 5)) - 1}`;
          const headers: Record<string, string> = ifMatch ? { range, 'if-match': `"${tag}"` } : { range };
          const response = await service.ask(url, { headers });
          if (response.status === 412) {
            refused.push(412);
            await response.body?.cancel();
            break;
          }
          expect(response.status).toBe(206);
          const body = await bodyOf(response);
          pieces.push(body);
          seen.push({ tag: tagOf(response), body, first });
          if (ifMatch) expect(tagOf(response)).toBe(tag);
        }
        const all = Buffer.concat(pieces);
        if (ifMatch && all.length === size) expect(sha256(all)).toBe(tag);
      }
    };
    const clients = [response(), inRanges(true), inRanges(true), inRanges(false)];
    // Each version is served before the next publish, so that every publish has responses before and after it.
    for (let i = 0; i < 8; i++) {
      const fresh = await publishNext();
      await waitFor(() => seen.some(({ tag }) => `"${tag}"` === fresh), 'a response with the new version');
    }
    isOver = true;
    await Promise.all(clients);
    expect(new Set(seen.map(({ tag }) => tag)).size).toBeGreaterThanOrEqual(8);
    const mixed = seen.filter(
      ({ tag, body, first }) =>
        !versions
          .get(tag)
          ?.subarray(first, first + body.length)
          .equals(body),
    );
    expect(mixed.length).toBe(0);
    expect(refused.every((status) => status === 412)).toBe(true);
    expect(await service.end('SIGTERM')).toBe(0);
  });
});
