import { hash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CoveredWindow, Evidence } from '../../../src/archive/format/coverage.ts';
import { type DatasetName, datasets } from '../../../src/archive/format/datasets.ts';
import type { Manifest } from '../../../src/archive/format/manifest.ts';
import { type Database, openDatabase } from '../../../src/archive/journal/database.ts';
import { type CellValue, decodeRows } from '../../../src/archive/parquet/rows.ts';
import { floorToDay, type Window } from '../../../src/base/window.ts';
import { crowdedReason } from '../../../src/collector/paging/fetch-steps.ts';
import type { Origin } from '../../../src/contract/raw-page.ts';
import type { AcceptedRows } from './accepted-rows.ts';
import { startCandlesAudit } from './candles-audit.ts';
import { findCompletenessErrors } from './completeness-audit.ts';
import { type Oracle, pickWinner } from './oracle.ts';
import type { Reader } from './reader.ts';
import { startRowsAudit } from './rows-audit.ts';
import { type RowsIn, startSeriesAudit } from './series-audit.ts';
import type { SeriesClaims, SeriesModel, SeriesRows } from './series-model.ts';
import type { SeriesName } from './series-rows.ts';
import { subtractWindows } from './spans.ts';

export interface Audit {
  /** Errors of an archive without concurrent writers, as sentences. */
  findings(nowMs: number): string[];
  /** Published coverage by symbol, as in the files. */
  coverage(): Map<string, CoveredWindow[]>;
  /** Gaps of one millisecond that are reported as holding more ticks than a page, by symbol. */
  crowded(): Map<string, Window[]>;
  /** sha256 of every published file, by path. */
  hashes(): Map<string, string>;
  /** Published quotes and trades, and their coverage. */
  series(): { readonly rows: SeriesRows; readonly claims: SeriesClaims };
  /** This many published rows are lost, and those that these damaged files lack now. */
  noteLost(lost: Readonly<Record<'ticks' | SeriesName, number>>, damagedPaths: readonly string[]): void;
  /** The state was lost: its counts start again. */
  reset(): void;
}

type Rows = readonly CellValue[][];

export function startAudit(
  root: string,
  oracle: Oracle,
  seriesModel: SeriesModel,
  acceptedRows: AcceptedRows,
  reader: Reader,
  rules: { readonly lookbackMs: number },
): Audit {
  // Most files do not change between audits.
  const decoded = new Map<string, Rows>();
  const rowsIn: RowsIn = (name, { path, sha256 }) => {
    const rows = decoded.get(sha256) ?? decodeRows(datasets[name].columns, readFileSync(join(root, path)));
    decoded.set(sha256, rows);
    return rows;
  };
  const wrongCandles = startCandlesAudit(root, reader, rowsIn);
  const seriesAudit = startSeriesAudit(seriesModel, rowsIn);
  const rowsAudit = startRowsAudit(oracle, acceptedRows);
  /** Published rows that a repair restored from the state, with times of no response, by symbol. */
  const restored = new Map<string, CoveredWindow[]>();
  /** Published rows when the counts of the state started. */
  let baseRows = 0;

  const manifestOf = (): Manifest | null => {
    const path = join(root, 'manifest.json');
    return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Manifest) : null;
  };

  function hashes(): Map<string, string> {
    const out = new Map<string, string>();
    const walk = (folder: string): void => {
      for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
        const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
        if (entry.isDirectory() && path !== '.oddslake') walk(path);
        else if (entry.isFile()) out.set(path, hash('sha256', readFileSync(`${root}/${path}`)));
      }
    };
    walk('');
    return out;
  }

  const rowsOf = (name: DatasetName, manifest: Manifest): CellValue[][] =>
    manifest.datasets[name].files.flatMap((file) => rowsIn(name, file) as CellValue[][]);

  function coverageIn(manifest: Manifest): Map<string, (CoveredWindow & { ticks: number })[]> {
    const out = new Map<string, (CoveredWindow & { ticks: number })[]>();
    for (const row of rowsOf('coverage', manifest)) {
      const [dataset, symbol, from, to, ticks, fetchedAt, origin, evidence] = row as [
        ...[string, string, number, number, number, number, Origin, Evidence],
      ];
      if (dataset !== 'ticks') continue;
      const list = out.get(symbol) ?? [];
      out.set(symbol, list);
      list.push({ from, to, ticks, fetchedAt, origin, evidence });
    }
    return out;
  }

  function* files(manifest: Manifest): Generator<string> {
    const currentHashes = hashes();
    const listed = Object.values(manifest.datasets).flatMap(({ files: list }) => list);
    for (const file of listed) {
      const sha256 = currentHashes.get(file.path);
      if (sha256 === undefined) yield `files: ${file.path} is missing`;
      else if (sha256 !== file.sha256) yield `files: ${file.path} differs from the manifest`;
      const ticks = file.path.startsWith('ticks/') ? reader.file(file.path) : undefined;
      const rows = ticks && [...ticks.values()].reduce((sum, prices) => sum + prices.size, 0);
      if (rows !== undefined && rows !== file.rows) yield `files: ${file.path} has ${rows} rows, not ${file.rows}`;
    }
    const known = new Set(listed.map(({ path }) => path));
    for (const path of currentHashes.keys())
      if (path.endsWith('.parquet') && !known.has(path)) yield `files: ${path} is in no manifest`;
    const lines = readFileSync(join(root, 'SHA256SUMS'), 'utf8').trimEnd().split('\n');
    const expected = listed.map(({ path, sha256 }) => `${sha256}  ${path}`);
    if (
      lines
        .filter((line) => line !== '')
        .sort()
        .join() !== expected.sort().join()
    )
      yield 'files: SHA256SUMS differs from the manifest';
  }

  function* ticks(db: Database): Generator<string> {
    const published = reader.ticks();
    const waiting = new Set(
      db
        .all<{ record_id: number; symbol: string; day: number }>('select record_id, symbol, day from journal_ticks')
        .map(({ record_id, symbol, day }) => `${record_id} ${symbol} ${day}`),
    );
    for (const [symbol, times] of oracle.seen) {
      const prices = published.get(symbol);
      for (const [t, observations] of times) {
        const merged = observations.filter(({ record }) => !waiting.has(`${record} ${symbol} ${floorToDay(t)}`));
        if (merged.length === 0) continue;
        const p = prices?.get(t);
        if (p === undefined) yield `lost: ${symbol} at ${t} was accepted and is neither published nor journaled`;
        else if (oracle.isLoose(symbol, t) ? !merged.some((one) => one.p === p) : p !== pickWinner(merged))
          yield `price: ${symbol} at ${t} is ${p}, of ${JSON.stringify(merged)}`;
      }
    }
    for (const [symbol, prices] of published)
      for (const t of prices.keys())
        if (!oracle.seen.get(symbol)?.has(t)) yield `invented: ${symbol} at ${t} was never accepted`;
  }

  function* coverage(manifest: Manifest, db: Database, nowMs: number): Generator<string> {
    const published = coverageIn(manifest);
    const all = reader.ticks();
    const journaled = Map.groupBy(
      db.all<{ symbol: string; from: number; to: number }>(
        'select symbol, t_from as "from", t_to as "to" from journal_coverage',
      ),
      ({ symbol }) => symbol,
    );
    // A withdrawal that is not published yet stays in the files until the next publish.
    const withdrawnRows = Map.groupBy(
      db.all<{ symbol: string; from: number; to: number }>(
        'select symbol, t_from as "from", t_to as "to" from journal_withdrawn',
      ),
      ({ symbol }) => symbol,
    );
    for (const [symbol, list] of published) {
      const claims = oracle.covers.get(symbol) ?? [];
      const withdrawn = withdrawnRows.get(symbol) ?? [];
      const disputed = oracle.disputed.get(symbol) ?? [];
      for (const w of subtractWindows(list, [...claims, ...disputed, ...withdrawn]))
        yield `coverage: ${symbol} [${w.from}, ${w.to}) was never fetched`;
      const lost = manifest.lost?.filter((window) => window.symbol === symbol) ?? [];
      for (const w of subtractWindows(claims, [...list, ...lost, ...(journaled.get(symbol) ?? [])]))
        yield `coverage: ${symbol} [${w.from}, ${w.to}) was fetched and is not covered`;
      const times = [...(all.get(symbol)?.keys() ?? [])];
      let last = Number.NEGATIVE_INFINITY;
      for (const { from, to, ticks: counted, fetchedAt } of list) {
        const publishedCount = times.filter((t) => from <= t && t < to).length;
        if (publishedCount !== counted)
          yield `counts: ${symbol} [${from}, ${to}) has ${publishedCount} ticks, coverage counts ${counted}`;
        if (from < last || to <= from || floorToDay(to - 1) !== floorToDay(from))
          yield `coverage: ${symbol} [${from}, ${to}) overlaps or spans days`;
        const overlaps = (other: Window): boolean => other.from < to && from < other.to;
        // A later response that covers only a part of a restored row leaves the rest with the row's time.
        const isRestored =
          restored.get(symbol)?.some((row) => row.fetchedAt === fetchedAt && overlaps(row)) &&
          claims.some((claim) => overlaps(claim) && fetchedAt <= claim.fetchedAt);
        const isAnswered = isRestored || [...claims, ...disputed].some((claim) => claim.fetchedAt === fetchedAt);
        if (!isAnswered && subtractWindows([{ from, to }], withdrawn).length > 0)
          yield `coverage: ${symbol} [${from}, ${to}) matches no response of ${fetchedAt}`;
        if (fetchedAt > nowMs + 3_600_000) yield `coverage: ${symbol} has a response from the future`;
        last = to;
      }
    }
  }

  /**
   * Notes the rows that a repair restored from the state, which joins the proven windows of several responses: such a
   * row has the earliest time of them.
   */
  function noteRestored(manifest: Manifest, damagedPaths: readonly string[]): void {
    for (const [symbol, rows] of coverageIn(manifest)) {
      const claims = oracle.covers.get(symbol) ?? [];
      const isAnsweredLater = ({ from, to, fetchedAt }: CoveredWindow): boolean =>
        claims.some((claim) => claim.from < to && from < claim.to && fetchedAt <= claim.fetchedAt);
      const isOfDamagedFile = ({ from }: CoveredWindow): boolean =>
        damagedPaths.some((path) => path.startsWith(`coverage/date=${new Date(from).toISOString().slice(0, 10)}/`));
      const restoredNow = rows.filter((row) => isOfDamagedFile(row) && isAnsweredLater(row));
      restored.set(symbol, [...(restored.get(symbol) ?? []), ...restoredNow]);
    }
  }

  function* symbols(manifest: Manifest): Generator<string> {
    const all = reader.ticks();
    const rows = rowsOf('symbols', manifest);
    for (const row of rows) {
      const times = [...(all.get(row[0] as string)?.keys() ?? [])];
      const [first, last, count] = [row[12], row[13], row[14]];
      const ends = [times.length === 0 ? null : Math.min(...times), times.length === 0 ? null : Math.max(...times)];
      if (count !== times.length) yield `counts: ${row[0]} has ${times.length} ticks, symbols says ${count}`;
      if (first !== ends[0] || last !== ends[1])
        yield `counts: ${row[0]} has ticks from ${ends}, symbols says ${[first, last]}`;
    }
    const named = new Set(rows.map((row) => row[0]));
    for (const symbol of all.keys()) if (!named.has(symbol)) yield `counts: ${symbol} is missing in symbols`;
  }

  function* runs(db: Database): Generator<string> {
    const waiting = new Map(
      db
        .all<{ run_id: string; n: number }>(
          'select j.run_id, sum(k.n) as n from journal_ticks k join journal j on j.id = k.record_id group by j.run_id',
        )
        .map(({ run_id, n }) => [run_id, n]),
    );
    const list = db.all<Record<string, number> & { run_id: string }>('select * from runs');
    for (const run of list) {
      const n = run as unknown as Record<string, number>;
      const sum = n.accepted! + n.duplicates! + n.conflicts! + n.quarantined! + (waiting.get(run.run_id) ?? 0);
      if (n.fetched !== sum) yield `counts: run ${run.run_id} fetched ${n.fetched} ticks, and ${sum} are accounted for`;
    }
    const sumOf = (name: string): number =>
      list.reduce((sum, run) => sum + (run as unknown as Record<string, number>)[name]!, 0);
    const accepted = sumOf('accepted') + sumOf('recovered');
    const rows = [...reader.ticks().values()].reduce((sum, prices) => sum + prices.size, 0);
    if (rows - baseRows !== accepted)
      yield `counts: ${accepted} ticks were accepted over all runs, ${rows - baseRows} are published`;
  }

  function* losses(manifest: Manifest, db: Database): Generator<string> {
    const known = db.all(
      'select dataset, symbol, t_from as "from", t_to as "to", ticks from lost order by dataset, symbol, t_from',
    );
    const [reported, recorded] = [manifest.lost ?? [], known].map((windows) => JSON.stringify(windows));
    if (reported !== recorded) yield `lost: the manifest lists ${reported}, the state ${recorded}`;
  }

  function withState<T>(work: (manifest: Manifest, db: Database) => T): T | undefined {
    const manifest = manifestOf();
    const at = join(root, '.oddslake', 'state.sqlite');
    if (manifest === null || !existsSync(at)) return undefined;
    const db = openDatabase(at, 0);
    try {
      return work(manifest, db);
    } finally {
      db.close();
    }
  }

  return {
    hashes,
    coverage: () => {
      const manifest = manifestOf();
      return manifest === null ? new Map() : coverageIn(manifest);
    },
    crowded() {
      let windows: (Window & { readonly symbol: string })[] = [];
      withState((_, db) => {
        windows = db.all(
          'select symbol, t_from as "from", t_to as "to" from owed where reason = ? and t_to = t_from + 1',
          crowdedReason,
        );
      });
      return Map.groupBy(windows, ({ symbol }) => symbol);
    },
    series() {
      const manifest = manifestOf();
      const none = { quotes: new Map(), trades: new Map() };
      if (manifest === null) return { rows: none, claims: none };
      return { rows: seriesAudit.rows(manifest), claims: seriesAudit.claims(manifest) };
    },
    noteLost(lost, damagedPaths) {
      baseRows -= lost.ticks;
      const damaged = new Set(damagedPaths.map((path) => path.split('/')[0] as DatasetName));
      withState((manifest, db) => {
        noteRestored(manifest, damagedPaths);
        rowsAudit.forgive(damaged, (name) => rowsOf(name, manifest), reader.ticks(), db);
        seriesAudit.noteLost(lost, damaged, manifest, db);
      });
    },
    reset() {
      const manifest = manifestOf();
      if (manifest !== null) seriesAudit.reset(manifest);
      baseRows = [...reader.ticks().values()].reduce((sum, prices) => sum + prices.size, 0);
    },
    findings: (nowMs) =>
      withState((manifest, db) => {
        const covered = coverageIn(manifest);
        return [
          ...files(manifest),
          ...ticks(db),
          ...coverage(manifest, db, nowMs),
          ...symbols(manifest),
          ...wrongCandles(manifest, covered),
          ...runs(db),
          ...losses(manifest, db),
          ...findCompletenessErrors(manifest, covered, rowsOf('symbols', manifest), oracle, db, rules),
          ...rowsAudit.wrongs((name) => rowsOf(name, manifest), reader.ticks(), db),
          ...seriesAudit.findings(manifest, db, nowMs),
        ];
      }) ?? [],
  };
}
