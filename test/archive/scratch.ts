import { createHash } from 'node:crypto';
import { globSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { type Disk, systemDisk } from '../../src/archive/disk/file-system.ts';
import { type DatasetName, datasets } from '../../src/archive/format/datasets.ts';
import { findSymbolFile } from '../../src/archive/format/day-parts.ts';
import type { SourceIdentity } from '../../src/archive/format/manifest.ts';
import type { MarketFacts } from '../../src/archive/format/market.ts';
import { unknownDetails } from '../../src/archive/format/market-details.ts';
import { precedenceRanks } from '../../src/archive/format/precedence.ts';
import { appendTicks, type TickRecord } from '../../src/archive/journal/journal.ts';
import { indexJournal, type JournalIndex } from '../../src/archive/journal/journal-check.ts';
import { startRun } from '../../src/archive/journal/runs.ts';
import { recordPolledFrom } from '../../src/archive/journal/symbol-store.ts';
import { openArchive } from '../../src/archive/open-archive.ts';
import { decodeRows } from '../../src/archive/parquet/rows.ts';
import { decodeTicks } from '../../src/archive/parquet/ticks-file.ts';
import { chooseDayParts } from '../../src/archive/publish/day-part-choice.ts';
import { type PublishOptions, type PublishResult, publish } from '../../src/archive/publish/publish.ts';
import type { Clock } from '../../src/base/ports.ts';
import { systemClock } from '../../src/base/system.ts';
import type { Window } from '../../src/base/window.ts';
import { filterFilesWithRows } from '../harness/files-with-rows.ts';
import { scratchRoot } from '../harness/scratch-root.ts';

// The wiring of the tests of state and archive: real files in a folder that goes with the test, a clock that stands.

export const dayMs = 86_400_000;
export const hourMs = 3_600_000;
/** UTC midnight of the days that these tests speak of. */
export const day0 = Date.UTC(2026, 5, 1);
/** The moment it is, unless a test says otherwise: noon, three days later. */
export const now = day0 + 3 * dayMs + 12 * hourMs;
export const upstreamName = 'https://box.test';

export function scratchFolder(): string {
  const path = mkdtempSync(join(scratchRoot, 'oddslake-archive-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** A wall clock that stands; sleeping is real. */
export const clockAt = (nowMs: number): Clock => ({ ...systemClock, nowMs: () => nowMs });

/** The index of the journal, with the parts that a publish would choose. */
export const indexed = (archive: Archive): JournalIndex =>
  indexJournal(archive.state.db, (journaled) =>
    chooseDayParts(archive.readManifest(), { journaled, sources: [], parts: archive.parts }),
  );

/** The path of the file with the rows of a symbol on a day. */
export const pathOfSymbol = (archive: Archive, dataset: DatasetName, symbol: string, day = day0): string =>
  findSymbolFile(archive.readManifest(), dataset, symbol, day)!.path;

export interface Opening {
  readonly root?: string;
  readonly disk?: Disk;
  readonly upstream?: string | null;
  readonly sources?: readonly SourceIdentity[];
  readonly parts?: number;
  readonly create?: boolean;
  readonly mends?: boolean;
  readonly groupRows?: number;
}

/** Opens (or starts) an archive that is closed with the test. */
export function opened({ root = scratchFolder(), disk = systemDisk, ...rest }: Opening = {}): Archive {
  const options = { root, create: true, upstream: upstreamName, parts: 4, writer: 'oddslake test' };
  const archive = openArchive({ ...options, ...rest }, disk);
  let open = true;
  const close = (): void => {
    if (open) archive.close();
    open = false;
  };
  onTestFinished(close);
  return { ...archive, close };
}

export type Pairs = readonly (readonly [t: number, p: number])[];

/** An answer with these ticks that covers `covered`, by default from the first to the last of them. */
export function answer(symbol: string, pairs: Pairs, rest: Partial<TickRecord> & { windows?: readonly Window[] } = {}) {
  const { windows, ...given } = rest;
  const times = pairs.map(([t]) => t);
  const span = {
    from: times.reduce((least, t) => Math.min(least, t), Number.POSITIVE_INFINITY),
    to: times.reduce((most, t) => Math.max(most, t), Number.NEGATIVE_INFINITY) + 1,
  };
  const observedAt = given.observedAt ?? now;
  const record: TickRecord = {
    runId: 'run',
    symbol,
    requestedWindow: span,
    observedAt,
    origin: 'poll',
    rank: precedenceRanks.poll,
    rejected: [],
    ticks: { t: Float64Array.from(times), p: Float64Array.from(pairs, ([, p]) => p) },
    covered: (windows ?? (pairs.length === 0 ? [] : [span])).map((w) => ({
      ...w,
      fetchedAt: observedAt,
      evidence: 'confirmed',
    })),
    ...given,
  };
  return record;
}

/** Starts the runs of records that are not known yet. */
export function startRuns(archive: Archive, records: readonly { readonly runId: string }[]): void {
  for (const runId of new Set(records.map((record) => record.runId))) {
    if (archive.state.db.one('select 1 from runs where run_id = ?', runId) === undefined)
      startRun(archive.state.db, runId, 'test', process.pid, now);
  }
}

/** Makes answers durable, in one transaction, for runs that are then known. */
export function append(archive: Archive, ...records: TickRecord[]): void {
  startRuns(archive, records);
  appendTicks(archive.state, records);
  // Each is a poll that was carried through.
  for (const { symbol, origin, covered } of records)
    for (const { from } of origin === 'poll' ? covered : []) recordPolledFrom(archive.state.db, symbol, from);
}

/** By what these archives are judged: no list decides. */
export const judged = {
  namedSymbols: null,
  views: [],
  lifetimeRules: { lookbackMs: 0, lingerMs: 7 * dayMs },
};

export const publishNow = (
  archive: Archive,
  nowMs = now,
  runId = 'run',
  rest: Partial<PublishOptions> = {},
): Promise<PublishResult> =>
  publish(archive, {
    runId,
    clock: clockAt(nowMs),
    waitMs: 0,
    ...judged,
    candles: ['1h', '1d'],
    ...rest,
  });

/** What of a manifest is another at every commit: its random ID, and by it the hash of the manifest before. */
const random = /"(commit_id|previous_sha256)": "\w+"/g;

/** sha256 of the files that a glob finds, by path; of a manifest without what is random in it. */
export const hashes = (root: string, pattern: string): Record<string, string> =>
  Object.fromEntries(
    globSync(pattern, { cwd: root })
      .filter((path) => statSync(join(root, path)).isFile())
      .sort()
      .map((path) => [
        path,
        createHash('sha256')
          .update(
            path === 'manifest.json'
              ? readFileSync(join(root, path), 'utf8').replace(random, '')
              : readFileSync(join(root, path)),
          )
          .digest('hex'),
      ]),
  );

/** The same for the Parquet files with rows: to compare archives whose rows were batched differently. */
export function rowHashes(root: string, pattern: string): Record<string, string> {
  const all = hashes(root, pattern);
  return Object.fromEntries(filterFilesWithRows(root, Object.keys(all)).map((path) => [path, all[path]!]));
}

/** Every published tick as `symbol t p`, in the order of the files. */
export const publishedTicks = (root: string): string[] =>
  globSync('ticks/date=*/*.parquet', { cwd: root })
    .sort()
    .flatMap((path) => {
      const { symbols, offsets, t, p } = decodeTicks(readFileSync(join(root, path)));
      return symbols.flatMap((symbol, i) =>
        [...t.subarray(offsets[i]!, offsets[i + 1]!)].map((time, k) => `${symbol} ${time} ${p[offsets[i]! + k]}`),
      );
    });

export const publishedRows = (root: string, dataset: Exclude<keyof typeof datasets, 'ticks'>) =>
  globSync(`${dataset}/**/*.parquet`, { cwd: root })
    .sort()
    .flatMap((path) => decodeRows(datasets[dataset].columns, readFileSync(join(root, path))));

export const market = (symbol: string, rest: Partial<MarketFacts> = {}): MarketFacts => ({
  canonicalId: `id ${symbol}`,
  symbol,
  source: 'venue',
  views: ['matched'],
  category: null,
  confidence: null,
  isActive: true,
  question: null,
  opensAt: null,
  closesAt: null,
  resolvedAt: null,
  outcome: null,
  extra: null,
  ...unknownDetails,
  outcomeSource: (rest.outcome ?? null) === null ? null : 'reported',
  ...rest,
});
