import { hash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CoveredWindow, Evidence } from '../../../src/archive/format/coverage.ts';
import { type DatasetName, datasets } from '../../../src/archive/format/datasets.ts';
import type { Manifest } from '../../../src/archive/format/manifest.ts';
import { type Database, openDatabase } from '../../../src/archive/journal/database.ts';
import { type CellValue, decodeRows } from '../../../src/archive/parquet/rows.ts';
import { floorToDay } from '../../../src/base/window.ts';
import type { Origin } from '../../../src/contract/raw-page.ts';
import { startCandlesAudit } from './candles-audit.ts';
import { wrongCompleteness } from './completeness-audit.ts';
import type { Heard } from './heard.ts';
import { type Oracle, winnerOf } from './oracle.ts';
import type { Reader } from './reader.ts';
import { startRowsAudit } from './rows-audit.ts';
import { beyond } from './spans.ts';

export interface Audit {
  /** What is wrong with an archive that nobody writes to; sentences. */
  findings(nowMs: number): string[];
  /** What is published as covered, by symbol; as the files have it. */
  coverage(): Map<string, CoveredWindow[]>;
  /** sha256 of every file that readers see, by path. */
  hashes(): Map<string, string>;
  /** So many published ticks are lost, and whatever the damaged files of these datasets lack now. */
  noteLost(ticks: number, damaged: ReadonlySet<DatasetName>): void;
  /** The state was lost: its sums begin anew. */
  beginAnew(): void;
}

type Rows = readonly CellValue[][];

export function startAudit(
  root: string,
  oracle: Oracle,
  heard: Heard,
  reader: Reader,
  rules: { readonly settleMs: number; readonly lookbackMs: number },
): Audit {
  // Most files are those of the audit before.
  const decoded = new Map<string, Rows>();
  const wrongCandles = startCandlesAudit(root, reader);
  const rowsAudit = startRowsAudit(oracle, heard);
  /** Whether the state has stood in for a file of coverage. */
  let isRefilled = false;
  /** Rows that were published when the sums of the state began. */
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

  function rowsOf(name: DatasetName, manifest: Manifest): CellValue[][] {
    return manifest.datasets[name].files.flatMap(({ path, sha256 }) => {
      const rows = decoded.get(sha256) ?? decodeRows(datasets[name], readFileSync(join(root, path)));
      decoded.set(sha256, rows);
      return rows as CellValue[][];
    });
  }

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
    const found = hashes();
    const listed = Object.values(manifest.datasets).flatMap(({ files: list }) => list);
    for (const file of listed) {
      const sha256 = found.get(file.path);
      if (sha256 === undefined) yield `files: ${file.path} is missing`;
      else if (sha256 !== file.sha256) yield `files: ${file.path} differs from the manifest`;
      const ticks = file.path.startsWith('ticks/') ? reader.file(file.path) : undefined;
      const rows = ticks && [...ticks.values()].reduce((sum, prices) => sum + prices.size, 0);
      if (rows !== undefined && rows !== file.rows) yield `files: ${file.path} has ${rows} rows, not ${file.rows}`;
    }
    const known = new Set(listed.map(({ path }) => path));
    for (const path of found.keys())
      if (path.endsWith('.parquet') && !known.has(path)) yield `files: ${path} is in no manifest`;
    const sums = readFileSync(join(root, 'SHA256SUMS'), 'utf8').trimEnd().split('\n');
    const wanted = listed.map(({ path, sha256 }) => `${sha256}  ${path}`);
    if (
      sums
        .filter((line) => line !== '')
        .sort()
        .join() !== wanted.sort().join()
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
        else if (oracle.isLoose(symbol, t) ? !merged.some((one) => one.p === p) : p !== winnerOf(merged))
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
        'select symbol, t_from as "from", t_to as "to" from journal_cover',
      ),
      ({ symbol }) => symbol,
    );
    // What a run took back and did not publish is in the files until the next publish.
    const takenBack = Map.groupBy(
      db.all<{ symbol: string; from: number; to: number }>(
        'select symbol, t_from as "from", t_to as "to" from journal_withdrawn',
      ),
      ({ symbol }) => symbol,
    );
    for (const [symbol, list] of published) {
      const claims = oracle.covers.get(symbol) ?? [];
      const withdrawn = takenBack.get(symbol) ?? [];
      for (const w of beyond(list, [...claims, ...withdrawn]))
        yield `coverage: ${symbol} [${w.from}, ${w.to}) was never answered`;
      const lost = manifest.lost?.filter((window) => window.symbol === symbol) ?? [];
      for (const w of beyond(claims, [...list, ...lost, ...(journaled.get(symbol) ?? [])]))
        yield `coverage: ${symbol} [${w.from}, ${w.to}) was answered and is not covered`;
      const times = [...(all.get(symbol)?.keys() ?? [])];
      let last = Number.NEGATIVE_INFINITY;
      for (const { from, to, ticks: counted, fetchedAt } of list) {
        const there = times.filter((t) => from <= t && t < to).length;
        if (there !== counted)
          yield `counts: ${symbol} [${from}, ${to}) has ${there} ticks, coverage counts ${counted}`;
        if (from < last || to <= from || floorToDay(to - 1) !== floorToDay(from))
          yield `coverage: ${symbol} [${from}, ${to}) overlaps or spans days`;
        // What the state has joined of several days is known to have been answered once it had settled.
        const isSettledBy = (claim: CoveredWindow): boolean =>
          claim.from < to && from < claim.to && fetchedAt <= Math.min(claim.fetchedAt, to + rules.settleMs);
        const isAnswered = claims.some((claim) => claim.fetchedAt === fetchedAt || (isRefilled && isSettledBy(claim)));
        if (!isAnswered && beyond([{ from, to }], withdrawn).length > 0)
          yield `coverage: ${symbol} [${from}, ${to}) is of no answer of ${fetchedAt}`;
        if (fetchedAt > nowMs + 3_600_000) yield `coverage: ${symbol} was answered in the future`;
        last = to;
      }
    }
  }

  function* symbols(manifest: Manifest): Generator<string> {
    const all = reader.ticks();
    const rows = rowsOf('symbols', manifest);
    for (const row of rows) {
      const times = [...(all.get(row[0] as string)?.keys() ?? [])];
      const [first, last, count] = [row[12], row[13], row[14]];
      const span = [times.length === 0 ? null : Math.min(...times), times.length === 0 ? null : Math.max(...times)];
      if (count !== times.length) yield `counts: ${row[0]} has ${times.length} ticks, symbols says ${count}`;
      if (first !== span[0] || last !== span[1])
        yield `counts: ${row[0]} has ticks from ${span}, symbols says ${[first, last]}`;
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
    const [told, noted] = [manifest.lost ?? [], known].map((windows) => JSON.stringify(windows));
    if (told !== noted) yield `lost: the manifest tells of ${told}, the state of ${noted}`;
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
    noteLost(ticks, damaged) {
      baseRows -= ticks;
      isRefilled ||= damaged.has('coverage');
      withState((manifest, db) => rowsAudit.forgive(damaged, (name) => rowsOf(name, manifest), reader.ticks(), db));
    },
    beginAnew() {
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
          ...wrongCompleteness(manifest, covered, rowsOf('symbols', manifest), oracle, db, rules),
          ...rowsAudit.wrongs((name) => rowsOf(name, manifest), reader.ticks(), db),
        ];
      }) ?? [],
  };
}
