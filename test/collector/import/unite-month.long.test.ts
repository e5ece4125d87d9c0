import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { job as importJob } from '../../../jobs/import.ts';
import { job as nightly } from '../../../jobs/nightly.ts';
import { systemDisk } from '../../../src/archive/disk/file-system.ts';
import { datasets } from '../../../src/archive/format/datasets.ts';
import { verifyArchive } from '../../../src/archive/integrity/verify.ts';
import { openArchive } from '../../../src/archive/open-archive.ts';
import { covers, dayMs, hourMs, intersect, union, type Window } from '../../../src/base/window.ts';
import type { SandboxOptions } from '../../../src/sandbox/sandbox-options.ts';
import { publishedRows, scratchFolder } from '../../archive/scratch.ts';
import { contentsOf, copyOf, statesOf } from '../../archive/united.ts';
import { useBucketServer } from '../../e2e/bucket-server.ts';
import { expectDone, type Variables } from '../../e2e/lake.ts';
import { run } from '../../e2e/run-program.ts';
import { archiveOf, contextIn } from '../../faults/place.ts';
import { sandboxWire } from '../../faults/sandbox-wire.ts';
import { needsObjectStorage } from '../../harness/needs.ts';
import { defaultRowRules } from './row-rules.ts';

// Three machines record one month of a service that keeps a day and a half of history. Two of them miss nights and meet faults.

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`month: SEED=${seed}`);

const firstNight = Date.UTC(2026, 5, 1, 2);
const nights = Number(process.env.NIGHTS ?? 30);
const nowAt = (night: number): number => firstNight + night * dayMs;

interface Machine {
  readonly misses: readonly number[];
  /** Nights on which the service refuses some symbols. */
  readonly failsFrom: number;
}

const machines = {
  a: { misses: [5, 6, 7, 15, 16], failsFrom: 24 },
  b: { misses: [10, 11, 12, 20, 21], failsFrom: 27 },
  whole: { misses: [], failsFrom: nights },
} satisfies Record<string, Machine>;

const evidenceColumn = datasets.coverage.columns.findIndex(({ name }) => name === 'evidence');

let turns = 0;
const contextOf = (place: string, night: number, options: Partial<SandboxOptions> = {}) => {
  const nowMs = nowAt(night);
  const service = { seed, markets: 6, ticksPerDay: 30, lifetimeDaysMax: 40, epochMs: firstNight - 60 * dayMs };
  return contextIn({
    place,
    disk: systemDisk,
    openDatabase: undefined,
    nowMs,
    turn: ++turns,
    openWire: sandboxWire({ ...service, nowMs, retentionMs: 36 * hourMs, ...options }, nowMs),
  });
};

async function record({ misses, failsFrom }: Machine): Promise<string> {
  const place = scratchFolder();
  for (let night = 0; night < nights; night++) {
    if (misses.includes(night)) continue;
    const known = night === failsFrom || night === failsFrom + 1 ? listSymbols(archiveOf(place)).slice(0, 3) : [];
    const faultSymbols = Object.fromEntries(known.map((symbol) => [symbol, 500 as const]));
    const summary = await nightly.run(await contextOf(place, night, { faultSymbols }), { day: null });
    if (summary.error !== null) console.log(night, summary.error);
  }
  return archiveOf(place);
}

const listSymbols = (root: string): string[] => publishedRows(root, 'symbols').map((row) => row[0] as string);

async function take(target: string, other: string) {
  const place = join(target, '..');
  const flags = { paths: [], datasets: null, format: null, rows: defaultRowRules, renames: [], filters: [] };
  return await importJob.run(await contextOf(place, nights - 1), {
    ...flags,
    covers: null,
    preferred: false,
    rejectedShareMax: null,
    showCheck: null,
    archive: { place: other, showPlan: null },
  });
}

/** When each symbol was resolved, or the last tick after that; Infinity if it was not. */
const endsOf = (root: string): Map<string, number> =>
  new Map(
    publishedRows(root, 'symbols').map((row) => {
      const read = (column: string) => row[datasets.symbols.columns.findIndex(({ name }) => name === column)];
      const resolvedAt = read('resolved_at') as number | null;
      const lastTick = (read('last_tick') ?? 0) as number;
      return [read('symbol') as string, Math.max(resolvedAt ?? Number.POSITIVE_INFINITY, lastTick + 1)];
    }),
  );

const coverageOf = (...roots: string[]) => windowsOf(roots, () => true);
const provenOf = (...roots: string[]) => windowsOf(roots, (evidence) => evidence !== 'inferred');

/** Windows of ticks by symbol, of all archives together, with such evidence. */
function windowsOf(roots: readonly string[], isWanted: (evidence: unknown) => boolean): Map<string, Window[]> {
  const rows = roots
    .flatMap((root) => publishedRows(root, 'coverage'))
    .filter((row) => row[0] === 'ticks' && isWanted(row[evidenceColumn]));
  return new Map(
    [...Map.groupBy(rows, (row) => row[1] as string)].map(([symbol, list]) => [
      symbol,
      union(list.map((row) => ({ from: row[2] as number, to: row[3] as number }))),
    ]),
  );
}

function readStates(root: string): Record<string, string> {
  const archive = openArchive({ root, create: false, upstream: null, parts: 2, writer: 'test' }, systemDisk);
  const states = statesOf(archive);
  archive.close();
  return states;
}

const ranks = ['incomplete', 'provisional', 'complete_with_exceptions', 'complete', 'empty'];

/** Does the same with the other archive in a bucket, where the machine had pushed it. */
async function takeFromBucket(env: Variables, target: string, other: string) {
  await expectDone(run(['push', 's3://lakes/a', '--output', other], env));
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  onTestFinished(() => void vi.unstubAllEnvs());
  return await take(target, 's3://lakes/a');
}

describe('two machines that each missed nights', needsObjectStorage(), () => {
  const server = useBucketServer();

  test('unite to one that missed none, from a folder and from a bucket', async () => {
    const [a, b, whole] = [await record(machines.a), await record(machines.b), await record(machines.whole)];
    const wanted = contentsOf(whole);
    expect(contentsOf(a).ticks).not.toEqual(wanted.ticks);
    expect(contentsOf(b).ticks).not.toEqual(wanted.ticks);
    const placeOf = (root: string): string => {
      const place = scratchFolder();
      mkdirSync(place, { recursive: true });
      return copyOf(root, true, archiveOf(place));
    };
    const [ab, ba] = [placeOf(a), placeOf(b)];
    const [taken, other] = [await take(ab, b), await takeFromBucket(server.bucketAccess(), ba, a)];
    for (const { error } of [taken, other]) expect(error).toBeNull();
    for (const { ticks } of [taken, other])
      expect(ticks.fetched).toBe(ticks.accepted + ticks.duplicates + ticks.conflicts + ticks.quarantined);
    expect(contentsOf(ab)).toEqual(contentsOf(ba));
    for (const dataset of ['ticks', 'markets', 'conflicts', 'symbols'] as const)
      expect(contentsOf(ab)[dataset], dataset).toEqual(wanted[dataset]);
    const covered = coverageOf(ab);
    // For how long a symbol that has ended is polled, depends on the nights that prove its end.
    const ends = endsOf(whole);
    for (const [symbol, windows] of coverageOf(whole))
      for (const window of intersect(windows, [{ from: Number.NEGATIVE_INFINITY, to: ends.get(symbol)! }]))
        expect(covers(covered.get(symbol) ?? [], window), symbol).toBe(true);
    // A day can be complete that is provisional in each: one has proven some of its symbols, the other one the rest.
    const proven = provenOf(a, b);
    for (const root of [ab, ba])
      for (const [symbol, windows] of provenOf(root))
        for (const window of windows) expect(covers(proven.get(symbol) ?? [], window), symbol).toBe(true);
    const states = [a, b, whole, ab, ba].map(readStates);
    const rankOf = (day: string) => states.map((of) => ranks.indexOf(of[day] ?? 'incomplete'));
    for (const day of Object.keys(states[2]!)) {
      const [ofA, ofB, , ofAB, ofBA] = rankOf(day) as [number, number, number, number, number];
      expect(Math.min(ofAB, ofBA), day).toBeGreaterThanOrEqual(Math.max(ofA, ofB));
    }
    const better = Object.keys(states[2]!).filter((day) => {
      const [ofA, ofB, , ofAB] = rankOf(day) as [number, number, number, number];
      return ofAB > Math.min(ofA, ofB);
    });
    expect(better.length).toBeGreaterThan(5);
    const before = contentsOf(ab);
    const again = await take(ab, b);
    expect(again).toMatchObject({ exit_code: taken.exit_code, ticks: { accepted: 0 }, published: { files: 0 } });
    expect(contentsOf(ab)).toEqual(before);
    const archive = openArchive({ root: ab, create: false, upstream: null, parts: 2, writer: 'test' }, systemDisk);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
    archive.close();
  });
});
