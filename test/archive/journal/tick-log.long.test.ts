import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../../src/archive/archive.ts';
import { readLastJournaledTick, type TickRecord } from '../../../src/archive/journal/journal.ts';
import {
  isTickLogDue,
  logSymbols,
  readLoggedSymbol,
  readTickLog,
  readTickLogState,
  resetTickLog,
  TickLogDamageError,
  trimTickLog,
} from '../../../src/archive/journal/tick-log.ts';
import { watchManifest } from '../../../src/archive/read/manifest-watcher.ts';
import { openTickReader } from '../../../src/archive/read/read-ticks.ts';
import { openVerifiedFiles } from '../../../src/archive/read/verified-files.ts';
import { createRandom } from '../../../src/base/random.ts';
import { answer, append, day0, dayMs, hourMs, now, opened, type Pairs, publishNow } from '../scratch.ts';

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
const seeds = Number(process.env.SEEDS ?? 12);
console.log(`tick log: SEED=${seed}`);

const keepMs = 24 * hourMs;

function log(archive: Archive, ...symbols: string[]): void {
  const { db } = archive.state;
  logSymbols(db, symbols, now + keepMs, 'a0', (symbol) => readLastJournaledTick(db, symbol));
}

/** The rows of the log as texts: `+` for a new tick, `~` for another price. */
const listLog = ({ state: { db } }: Archive, from = 1): string[] =>
  readTickLog(db, from, null, 1_000_000).flatMap(({ symbol, isRevision, t, p }) =>
    [...t].map((time, i) => `${isRevision ? '~' : '+'} ${symbol} ${time} ${p[i]}`),
  );

async function readAll(archive: Archive, symbol: string): Promise<Map<number, number>> {
  const bytesMax = 1 << 20;
  const read = openTickReader(archive, watchManifest(archive), openVerifiedFiles(archive, bytesMax), bytesMax);
  const range = await read({ symbol, from: 0, to: now + dayMs, limit: 1_000_000 });
  const slices = range?.slices ?? [];
  return new Map(
    slices.flatMap(({ t, p, from, to }) => [...t.subarray(from, to)].map((at, i) => [at, p[from + i]!] as const)),
  );
}

/** What an observation changed, by the ticks that a reader gets before and after it. */
function listChanges(symbol: string, before: Map<number, number>, after: Map<number, number>): string[] {
  const changes = [...after].flatMap(([t, p]) =>
    before.get(t) === p ? [] : [`${before.has(t) ? '~' : '+'} ${symbol} ${t} ${p}`],
  );
  return changes.sort();
}

/** A random response: times on a coarse grid over two days, so that they meet again, some of them twice. */
function drawRecord(random: () => number, symbol: string, step: number): TickRecord {
  const draw = (count: number): number => Math.floor(random() * count);
  const [at, length] = [draw(40), draw(8)];
  const isTail = random() < 0.5;
  const pairs = Array.from({ length }, (_, i): readonly [number, number] => {
    const slot = isTail ? 20 + Math.floor(step / 2) + i : at + draw(6);
    return [day0 + dayMs - 20 + slot, draw(4) / 4];
  });
  const rank = random() < 0.15 ? 0 : random() < 0.1 ? 2 : 1;
  return answer(symbol, pairs, { rank, observedAt: now - draw(20) });
}

test('has what a reader sees change, however responses, publishes and restarts alternate', async () => {
  for (let at = seed; at < seed + seeds; at++) {
    const random = createRandom(at);
    const root = opened().layout.root;
    let archive = opened({ root });
    for (let step = 0; step < 60; step++) {
      // B is logged from the middle on: the first responses after that meet ticks that the log does not have.
      if (step === 0) log(archive, 'A');
      if (step === 30) log(archive, 'B');
      const turn = random();
      if (turn < 0.12) await publishNow(archive);
      else if (turn < 0.2) {
        archive.close();
        archive = opened({ root });
      } else {
        const symbol = random() < 0.5 ? 'A' : 'B';
        const isLogged = symbol === 'A' || step >= 30;
        const before = await readAll(archive, symbol);
        const from = (readTickLogState(archive.state.db)?.end ?? 0) + 1;
        append(archive, drawRecord(random, symbol, step));
        const expected = listChanges(symbol, before, await readAll(archive, symbol));
        expect(listLog(archive, from).sort(), `SEED=${at} SEEDS=1, step ${step}`).toEqual(isLogged ? expected : []);
      }
    }
  }
});

const first: Pairs = [
  [day0, 0.5],
  [day0 + 1, 0.25],
];

test('logs nothing unless somebody streams the symbol', () => {
  const archive = opened();
  append(archive, answer('A', first));
  log(archive, 'B');
  append(archive, answer('A', [[day0 + 2, 0.5]]));
  expect(listLog(archive)).toEqual([]);
  expect(readTickLogState(archive.state.db)).toEqual({ id: 'a0', floor: 0, end: 0 });
});

test('a late tick is new, and a tick that is fetched again is not, although both were published before the log began', async () => {
  const archive = opened();
  append(archive, answer('A', [first[0]!, [day0 + 9, 0.75]]));
  await publishNow(archive);
  log(archive, 'A');
  append(archive, answer('A', [first[0]!, first[1]!, [day0 + 9, 0.75]], { observedAt: now + 1 }));
  expect(listLog(archive)).toEqual([`+ A ${day0 + 1} 0.25`]);
});

test('another price of a published tick is a revision if it is kept', async () => {
  const archive = opened();
  append(archive, answer('A', first));
  await publishNow(archive);
  log(archive, 'A');
  append(archive, answer('A', [[day0, 0.1]], { observedAt: now - 1 }));
  expect(listLog(archive)).toEqual([]);
  append(archive, answer('A', [[day0, 0.2]], { observedAt: now + 1 }));
  expect(listLog(archive)).toEqual([`~ A ${day0} 0.2`]);
});

test('if the file of the day is damaged, its ticks count as unknown', async () => {
  const archive = opened({ parts: 1 });
  append(archive, answer('A', first));
  await publishNow(archive);
  const again = opened({ root: archive.layout.root, parts: 1 });
  writeFileSync(join(archive.layout.root, `ticks/date=2026-06-01/part-00.parquet`), 'rubbish');
  log(again, 'A');
  append(again, answer('A', [[day0, 0.5]]));
  expect(listLog(again)).toEqual([`+ A ${day0} 0.5`]);
  expect([...again.refusedPaths]).toEqual(['ticks/date=2026-06-01/part-00.parquet']);
});

test('a symbol is logged until nobody can resume', () => {
  const archive = opened();
  const { db } = archive.state;
  log(archive, 'A', 'B');
  append(archive, answer('A', first));
  append(archive, answer('A', [[day0 + 5, 0.5]], { observedAt: now + keepMs }));
  expect(listLog(archive)).toHaveLength(2);
  expect(readLoggedSymbol(db, 'A')).toBeUndefined();
  expect(readLoggedSymbol(db, 'B')).toEqual({ since: 1, until: now + keepMs });
  log(archive, 'A');
  expect(readLoggedSymbol(db, 'A')).toEqual({ since: 2, until: now + keepMs });
});

test('old rows are removed, and the log knows which ones', () => {
  const archive = opened();
  const { db } = archive.state;
  log(archive, 'A');
  append(archive, answer('A', first));
  append(archive, answer('A', [[day0 + 2, 0.5]], { observedAt: now + 2 }));
  // Observed long ago, as a replayed response: removed no earlier than the rows before it.
  append(archive, answer('A', [[day0 + 3, 0.5]], { observedAt: day0 }));
  expect(isTickLogDue(db, now + keepMs, keepMs)).toBe(false);
  expect(isTickLogDue(db, now + keepMs + 1, keepMs)).toBe(true);
  trimTickLog(db, now + keepMs + 1, keepMs);
  expect(listLog(archive)).toEqual([`+ A ${day0 + 2} 0.5`, `+ A ${day0 + 3} 0.5`]);
  expect(readTickLogState(db)).toEqual({ id: 'a0', floor: 1, end: 3 });
  trimTickLog(db, now + keepMs + 3, keepMs);
  expect(readTickLogState(db)).toEqual({ id: 'a0', floor: 3, end: 3 });
  expect(readLoggedSymbol(db, 'A')).toBeUndefined();
});

test('a damaged row is refused, and a new log has another ID', () => {
  const archive = opened();
  const { db } = archive.state;
  log(archive, 'A');
  append(archive, answer('A', first));
  db.run('update tick_log set p = ?', new Uint8Array(16));
  expect(() => readTickLog(db, 1, ['A'], 10)).toThrow(TickLogDamageError);
  resetTickLog(db);
  expect(readTickLogState(db)).toBeNull();
  logSymbols(db, ['A'], now + keepMs, 'b0', () => null);
  expect(readTickLogState(db)).toEqual({ id: 'b0', floor: 1, end: 1 });
});

test('reads some symbols from a row on', () => {
  const archive = opened();
  const { db } = archive.state;
  log(archive, 'A', 'B', 'C');
  for (const [i, symbol] of ['A', 'B', 'C', 'A', 'B', 'C'].entries())
    append(archive, answer(symbol, [[day0 + i, 0.5]]));
  const list = (from: number, symbols: string[], rows: number): number[] =>
    readTickLog(db, from, symbols, rows).map(({ seq }) => seq);
  expect(list(1, ['A', 'C'], 10)).toEqual([1, 3, 4, 6]);
  expect(list(2, ['A', 'C'], 2)).toEqual([3, 4]);
  expect(list(5, ['A'], 10)).toEqual([]);
});

test('a lost state begins another log', () => {
  const archive = opened();
  log(archive, 'A');
  archive.close();
  rmSync(archive.layout.privateFolder, { recursive: true });
  expect(readTickLogState(opened({ root: archive.layout.root }).state.db)).toBeNull();
});

test('the log has a maximum size, and large responses have several rows', () => {
  const archive = opened();
  const { db } = archive.state;
  logSymbols(db, ['A'], now + 1, 'a0', () => null);
  const count = 1_000_000;
  for (let round = 0; round < 18; round++) {
    const t = Float64Array.from({ length: count }, (_, i) => day0 + round * count + i);
    append(archive, answer('A', [], { ticks: { t, p: new Float64Array(count) }, windows: [] }));
  }
  const { floor, end } = readTickLogState(db)!;
  expect(end).toBe((18 * count) / 1000);
  const [rows] = db.all<{ n: number; bytes: number }>(
    'select count(*) as n, sum(length(t) + length(p)) as bytes from tick_log',
  );
  expect(rows!.n).toBe(end - floor);
  expect(rows!.bytes).toBeLessThanOrEqual(256 * 2 ** 20);
  expect(rows!.bytes).toBeGreaterThan(200 * 2 ** 20);
  db.run('delete from journal');
});
