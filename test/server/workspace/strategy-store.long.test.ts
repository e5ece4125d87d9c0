import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { createBotStore, type NewBot } from '../../../src/server/workspace/bot-store.ts';
import type { DatabaseLocation } from '../../../src/server/workspace/database-url.ts';
import { toOwnerColumns } from '../../../src/server/workspace/owner.ts';
import {
  createStrategyStore,
  type NewStrategy,
  type StrategyStore,
} from '../../../src/server/workspace/strategy-store.ts';
import type { OwnerColumns, StrategyRow } from '../../../src/server/workspace/tables.ts';
import { openWorkspaceDatabase } from '../../../src/server/workspace/workspace-database.ts';
import type { Adding } from './add-strategies.ts';
import { freshDatabase, type Kind, overEachDatabase } from './databases.ts';

const alice = { owner: 'alice', workspace: 'trading' };
/** Owners that differ from alice in user or workspace. */
const others: readonly OwnerColumns[] = [
  { owner: 'bob', workspace: 'trading' },
  { owner: 'alice', workspace: 'home' },
  { owner: 'alice', workspace: '' },
  { owner: 'trading', workspace: 'alice' },
];

async function opened(kind: Kind) {
  const location = await freshDatabase(kind);
  const db = await openWorkspaceDatabase(location);
  onTestFinished(() => db.destroy());
  return { location, kept: createStrategyStore(db), running: createBotStore(db) };
}

const strategy = (id: string, name = 'mine', rest: Partial<NewStrategy> = {}): NewStrategy => ({
  id,
  name,
  idempotency_key: null,
  body_sha256: `of ${id}`,
  created_at: 1000,
  definition: `{"id":"${id}"}`,
  ...rest,
});
const bot = (id: string, strategy_id: string, rest: Partial<NewBot> = {}): NewBot => ({
  id,
  strategy_id,
  name: id,
  idempotency_key: null,
  body_sha256: `of ${id}`,
  created_at: 1000,
  symbols: '["S"]',
  filter: '{}',
  mode: 'paper',
  ...rest,
});
async function made(kept: StrategyStore, id: string, name = 'mine', owner: OwnerColumns = alice): Promise<StrategyRow> {
  const row = await kept.add(owner, strategy(id, name), 100);
  if (typeof row === 'string') throw new Error(row);
  return row;
}
const idsOf = async (kept: StrategyStore, name: string | null = null): Promise<string[]> =>
  (await kept.list(alice, { limit: 1000, before: null, name })).rows.map(({ id }) => id);

/** Adds strategies concurrently in separate processes. */
async function addedApart(
  location: DatabaseLocation,
  requested: readonly Omit<Adding, 'location'>[],
): Promise<unknown[]> {
  const program = new URL('./add-strategies.ts', import.meta.url).pathname;
  const reported = requested.map(async (one) => {
    const argument = JSON.stringify({ ...one, location } satisfies Adding);
    const child = spawn(process.execPath, [program, argument], { stdio: ['ignore', 'pipe', 'pipe'] });
    const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
    if (code !== 0) throw new Error(err);
    return JSON.parse(out) as unknown[];
  });
  return (await Promise.all(reported)).flat();
}

overEachDatabase((kind) => {
  test('versions start at 1 per name and owner', async () => {
    const { kept } = await opened(kind);
    const rows = [await made(kept, 'a'), await made(kept, 'b'), await made(kept, 'c', 'other'), await made(kept, 'd')];
    expect(rows.map(({ version }) => version)).toEqual([1, 2, 1, 3]);
    for (const [i, owner] of others.entries()) expect((await made(kept, `o${i}`, 'mine', owner)).version).toBe(1);
    expect(await kept.find(alice, 'mine', null)).toEqual(rows[3]);
    expect(await kept.find(alice, 'mine', 1)).toEqual(rows[0]);
    expect(await kept.find(alice, 'mine', 4)).toBeNull();
    expect(await kept.find(alice, 'theirs', null)).toBeNull();
  });

  test('concurrent processes get consecutive distinct versions of a name', async () => {
    const { location, kept } = await opened(kind);
    const requested = ['p', 'q', 'r', 's'].map((p) => ({
      name: 'mine',
      ids: [1, 2, 3, 4, 5].map((n) => `${p}${n}`),
      idempotencyKey: null,
      ownMax: 100,
    }));
    const rows = (await addedApart(location, requested)) as StrategyRow[];
    const versions = rows.map(({ version }) => version).sort((a, b) => a - b);
    expect(versions).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
    expect(new Set(rows.map(({ ordinal }) => ordinal)).size).toBe(20);
    const { rows: listed } = await kept.list(alice, { limit: 100, before: null });
    expect(listed.map(({ version }) => version)).toEqual([...versions].reverse());
  });

  test('concurrent processes with one idempotency key create one strategy', async () => {
    const { location, kept } = await opened(kind);
    const requested = ['a', 'b', 'c', 'd'].map((id) => ({
      name: 'mine',
      ids: [id],
      idempotencyKey: 'once',
      ownMax: 100,
    }));
    const rows = (await addedApart(location, requested)) as StrategyRow[];
    expect(new Set(rows.map(({ id }) => id)).size).toBe(1);
    expect(await idsOf(kept)).toEqual([rows[0]!.id]);
  });

  test('concurrent processes do not exceed the limit of an owner', async () => {
    const { location, kept } = await opened(kind);
    const requested = ['p', 'q', 'r'].map((p) => ({
      name: p,
      ids: [1, 2, 3].map((n) => `${p}${n}`),
      idempotencyKey: null,
      ownMax: 5,
    }));
    const reported = await addedApart(location, requested);
    expect(reported.filter((one) => one === 'full')).toHaveLength(4);
    expect(await idsOf(kept)).toHaveLength(5);
  });

  test('an idempotency key is unique per owner and tied to its body', async () => {
    const { kept } = await opened(kind);
    const once = { idempotency_key: 'once', body_sha256: 'same' };
    const first = await kept.add(alice, strategy('a', 'mine', once), 1);
    // This also holds at the limit, as nothing is added.
    expect(await kept.add(alice, strategy('b', 'mine', once), 1)).toEqual(first);
    expect(await kept.add(alice, strategy('c', 'mine', { ...once, body_sha256: 'another' }), 1)).toBe('other');
    expect(await kept.add(alice, strategy('d'), 1)).toBe('full');
    for (const [i, owner] of others.entries())
      expect(await kept.add(owner, strategy(`o${i}`, 'mine', once), 1)).toMatchObject({ id: `o${i}`, ...owner });
  });

  test('pages continue after the last item while strategies are added and removed', async () => {
    const { kept } = await opened(kind);
    for (const id of ['a', 'b', 'c', 'd', 'e', 'f', 'g']) await made(kept, id, id < 'd' ? 'early' : 'late');
    for (const [i, owner] of others.entries()) await made(kept, `o${i}`, 'late', owner);
    const seen: string[] = [];
    for (let before: number | null = null, turn = 0; ; turn++) {
      const { rows, next }: Awaited<ReturnType<StrategyStore['list']>> = await kept.list(alice, { limit: 2, before });
      seen.push(...rows.map(({ id }) => id));
      if (next === null) break;
      before = next;
      await made(kept, `new${turn}`);
      // Removing the last item of a page does not move the position after it.
      if (turn === 0) await kept.remove(alice, rows.at(-1)!.id);
    }
    expect(seen).toEqual(['g', 'f', 'e', 'd', 'c', 'b', 'a']);
    expect(await idsOf(kept, 'early')).toEqual(['c', 'b', 'a']);
    expect(await kept.list(alice, { limit: 3, before: null, name: 'early' })).toMatchObject({ next: null });
  });

  test('nobody can find, list or remove objects of others', async () => {
    const { kept, running } = await opened(kind);
    const row = await made(kept, 'a');
    await running.add(alice, bot('b', 'a'), 9);
    const whole = { limit: 9, before: null };
    for (const owner of others) {
      expect(await kept.get(owner, 'a')).toBeNull();
      expect(await kept.find(owner, 'mine', null)).toBeNull();
      expect(await kept.find(owner, 'mine', 1)).toBeNull();
      expect(await kept.list(owner, whole)).toEqual({ rows: [], next: null });
      expect(await kept.remove(owner, 'a')).toBeNull();
      expect(await running.get(owner, 'b')).toBeNull();
      expect(await running.list(owner, whole)).toEqual({ rows: [], next: null });
      expect(await running.setStatus(owner, 'b', 'paused', 2000)).toBeNull();
      expect(await running.remove(owner, 'b')).toBe(false);
      expect(await running.add(owner, bot('c', 'a'), 9)).toBe('unbound');
    }
    expect(await kept.get(alice, 'a')).toEqual(row);
    expect(await running.get(alice, 'b')).toMatchObject({ status: 'active', updated_at: 1000 });
  });

  test('a version that a bot uses cannot be removed, and numbers are not reused', async () => {
    const { kept, running } = await opened(kind);
    for (const id of ['a', 'b', 'c']) await made(kept, id);
    await running.add(alice, bot('x', 'c'), 9);
    await running.add(alice, bot('y', 'c'), 9);
    expect(await kept.remove(alice, 'c')).toEqual({ usedBy: 2 });
    expect([await running.remove(alice, 'x'), await running.remove(alice, 'y')]).toEqual([true, true]);
    expect(await kept.remove(alice, 'c')).toEqual({ usedBy: 0 });
    expect(await kept.remove(alice, 'c')).toBeNull();
    expect(await kept.find(alice, 'mine', null)).toMatchObject({ id: 'b', version: 2 });
    expect((await made(kept, 'd')).version).toBe(4);
    await kept.remove(alice, 'd');
    await kept.remove(alice, 'a');
    expect((await made(kept, 'e')).version).toBe(5);
    // A name without versions starts again.
    await kept.remove(alice, 'b');
    await kept.remove(alice, 'e');
    expect((await made(kept, 'f')).version).toBe(1);
  });

  test('a bot is never bound to a strategy that is removed concurrently', async () => {
    const { kept, running } = await opened(kind);
    for (let i = 0; i < 10; i++) {
      await made(kept, `s${i}`);
      const [added, removed] = await Promise.all([
        running.add(alice, bot(`b${i}`, `s${i}`), 99),
        kept.remove(alice, `s${i}`),
      ]);
      expect([typeof added === 'string' ? added : 'added', removed]).toEqual(
        (await kept.get(alice, `s${i}`)) === null ? ['unbound', { usedBy: 0 }] : ['added', { usedBy: 1 }],
      );
    }
  });

  test('a bot is paused and resumed, with the time of the change', async () => {
    const { kept, running } = await opened(kind);
    await made(kept, 'a');
    const made2 = await made(kept, 'b');
    const added = await running.add(alice, bot('x', 'b', { idempotency_key: 'once' }), 1);
    expect(added).toMatchObject({ id: 'x', strategy_name: 'mine', strategy_version: made2.version, status: 'active' });
    expect(await running.add(alice, bot('y', 'b'), 1)).toBe('full');
    expect(await running.setStatus(alice, 'x', 'active', 2000)).toEqual(added);
    const paused = { ...(added as object), status: 'paused', updated_at: 3000 };
    expect(await running.setStatus(alice, 'x', 'paused', 3000)).toEqual(paused);
    expect(await running.setStatus(alice, 'x', 'paused', 4000)).toEqual(paused);
    const again = bot('z', 'b', { idempotency_key: 'once', body_sha256: 'of x' });
    expect(await running.add(alice, again, 1)).toEqual(paused);
    expect(await running.add(alice, { ...again, body_sha256: 'another' }, 1)).toBe('other');
  });

  test('owners may have names of any length', async () => {
    const { kept } = await opened(kind);
    // PostgreSQL limits an index row to 2,704 bytes after compression, so the names are random.
    const long = (seed: number): string =>
      Array.from({ length: 1000 }, (_, i) =>
        String.fromCharCode(0x4e00 + ((seed * 7919 + i * i * 31 + i * 7) % 20000)),
      ).join('');
    const owners = [
      toOwnerColumns(user(long(1), long(2))),
      toOwnerColumns(user(long(1), long(3))),
      toOwnerColumns(user(long(4), long(2))),
    ];
    const name = long(5).slice(0, 200);
    for (const [i, owner] of owners.entries()) expect((await made(kept, `s${i}`, name, owner)).version).toBe(1);
    // No name can equal the stored digest.
    const { owner, workspace } = owners[0]!;
    expect(await kept.get(toOwnerColumns(user(owner, workspace)), 's0')).toBeNull();
    expect(await kept.get(toOwnerColumns(user(long(1), long(2))), 's0')).not.toBeNull();
  });
});

const user = (name: string, workspace: string) => ({ kind: 'user' as const, user: name, workspace, scopes: [] });
