import type { DatasetName } from '../../../src/archive/format/datasets.ts';
import type { Manifest, PublishedFile } from '../../../src/archive/format/manifest.ts';
import { conflictDatasets } from '../../../src/archive/format/series-datasets.ts';
import type { Database } from '../../../src/archive/journal/database.ts';
import type { CellValue } from '../../../src/archive/parquet/rows.ts';
import { floorToDay } from '../../../src/base/window.ts';
import { keyOf } from './accepted-rows.ts';
import {
  pickWinningRow,
  type SeriesClaim,
  type SeriesClaims,
  type SeriesModel,
  type SeriesRows,
} from './series-model.ts';
import { keyRows, type SeriesName, type SeriesRow, seqColumn, seriesNames, toSeriesRow } from './series-rows.ts';
import { subtractWindows } from './spans.ts';

/** The rows of a published file. */
export type RowsIn = (name: DatasetName, file: PublishedFile) => readonly (readonly CellValue[])[];

/** Compares the published quotes and trades with the model. */
interface SeriesAudit {
  findings(manifest: Manifest, db: Database, nowMs: number): Generator<string>;
  rows(manifest: Manifest): SeriesRows;
  claims(manifest: Manifest): SeriesClaims;
  /** So many rows are lost, and the conflicts that the damaged files of these datasets lack now. */
  noteLost(lost: Counts, damaged: ReadonlySet<DatasetName>, manifest: Manifest, db: Database): void;
  /** The state was lost: its counts start again. */
  reset(manifest: Manifest): void;
}

type Counts = Readonly<Record<SeriesName, number>>;

interface PublishedClaim extends SeriesClaim {
  readonly rows: number;
  readonly origin: string;
  readonly evidence: string;
}

export function startSeriesAudit(model: SeriesModel, rowsIn: RowsIn): SeriesAudit {
  /** Published rows when the counts of the state started. */
  const baseRows = { quotes: 0, trades: 0 };
  const forgiven = new Set<string>();

  const listRows = (name: DatasetName, manifest: Manifest) =>
    manifest.datasets[name].files.flatMap((file) => rowsIn(name, file));

  const listPublished = (dataset: SeriesName, manifest: Manifest): Map<string, SeriesRow> =>
    new Map(
      keyRows(
        dataset,
        listRows(dataset, manifest).map((row) => toSeriesRow(dataset, row)),
      ),
    );

  function listClaims(dataset: SeriesName, manifest: Manifest): Map<string, PublishedClaim[]> {
    const rows = listRows('coverage', manifest).filter((row) => row[0] === dataset);
    return Map.groupBy(
      rows.map((row) => {
        const [, symbol, from, to, count, fetchedAt, origin, evidence] = row as [
          ...[string, string, number, number, number, number, string, string],
        ];
        return { symbol, from, to, rows: count, fetchedAt, origin, evidence };
      }),
      ({ symbol }) => symbol,
    );
  }

  const listWaiting = (db: Database): Set<number> =>
    new Set(db.all<{ id: number }>('select record_id as id from journal_series').map(({ id }) => id));

  function* files(dataset: SeriesName, manifest: Manifest): Generator<string> {
    for (const file of manifest.datasets[dataset].files) {
      const rows = rowsIn(dataset, file);
      if (rows.length !== file.rows) yield `files: ${file.path} has ${rows.length} rows, not ${file.rows}`;
      if (dataset === 'quotes') continue;
      for (const [i, row] of rows.entries()) {
        const before = rows[i - 1];
        const isSameTime = before !== undefined && before[0] === row[0] && before[1] === row[1];
        const seq = isSameTime ? (before[seqColumn] as number) + 1 : 0;
        if (row[seqColumn] !== seq) yield `trades: ${row} of ${file.path} should have the seq ${seq}`;
      }
    }
  }

  function* rows(dataset: SeriesName, published: ReadonlyMap<string, SeriesRow>, db: Database): Generator<string> {
    const waiting = listWaiting(db);
    const seen = model.seen(dataset);
    for (const [key, observations] of seen) {
      const merged = observations.filter(({ record }) => !waiting.has(record));
      if (merged.length === 0) continue;
      const name = `${dataset} ${JSON.stringify(key)}`;
      const row = published.get(key);
      const text = row && JSON.stringify(row.cells);
      if (text === undefined) yield `lost: ${name} was accepted and is neither published nor journaled`;
      else if (
        model.isLoose(dataset, key)
          ? !merged.some((one) => one.text === text)
          : text !== pickWinningRow(dataset, merged).text
      )
        yield `price: ${name} is ${text}, of ${JSON.stringify(merged)}`;
    }
    for (const key of published.keys())
      if (!seen.has(key)) yield `invented: ${dataset} ${JSON.stringify(key)} was never accepted`;
  }

  /** Each accepted row is published or is in the conflicts. `key`: the same in every audit. */
  function* conflicts(
    dataset: SeriesName,
    manifest: Manifest,
    published: ReadonlyMap<string, SeriesRow>,
    db: Database,
  ): Generator<{ readonly key: string; readonly sentence: string }> {
    const dropped = new Set<string>();
    for (const row of listRows(conflictDatasets[dataset], manifest)) {
      const [symbol, t, seenAt, , ...facts] = row as [string, number, number, number, ...CellValue[]];
      const text = JSON.stringify([t, ...facts]);
      const key = keyOf(symbol, dataset === 'quotes' ? t : (facts[0] as string));
      dropped.add(keyOf(key, text));
      const observed = model.ever(dataset, key);
      if (!observed.some((one) => one.text === text) || !observed.some(({ observedAt }) => observedAt === seenAt))
        yield { key: keyOf(key, text), sentence: `conflicts: ${dataset} ${row}, of ${JSON.stringify(observed)}` };
    }
    const waiting = listWaiting(db);
    for (const [key, observations] of model.seen(dataset)) {
      if (observations.length < 2 || model.isLoose(dataset, key)) continue;
      const row = published.get(key);
      const kept = row && JSON.stringify(row.cells);
      for (const { text, record } of observations) {
        if (text === kept || dropped.has(keyOf(key, text)) || waiting.has(record)) continue;
        const sentence = `conflicts: ${dataset} ${JSON.stringify(key)} is ${kept}, and no conflict has ${text}`;
        yield { key: keyOf(key, text), sentence };
      }
    }
  }

  function* coverage(
    dataset: SeriesName,
    manifest: Manifest,
    published: ReadonlyMap<string, SeriesRow>,
    db: Database,
    nowMs: number,
  ): Generator<string> {
    const journaled = Map.groupBy(
      db.all<{ symbol: string; from: number; to: number } & Record<string, never>>(
        'select symbol, t_from as "from", t_to as "to" from journal_series_coverage where dataset = ?',
        dataset,
      ),
      ({ symbol }) => symbol,
    );
    const covered = listClaims(dataset, manifest);
    const claims = model.claims(dataset);
    const rowsOf = Map.groupBy(published.values(), ({ symbol }) => symbol);
    for (const symbol of new Set([...covered.keys(), ...claims.keys()])) {
      const [list, claimed] = [covered.get(symbol) ?? [], claims.get(symbol) ?? []];
      const name = `${dataset} of ${symbol}`;
      for (const w of subtractWindows(list, claimed)) yield `coverage: ${name} [${w.from}, ${w.to}) was never declared`;
      for (const w of subtractWindows(claimed, [...list, ...(journaled.get(symbol) ?? [])]))
        yield `coverage: ${name} [${w.from}, ${w.to}) was declared and is not covered`;
      let last = Number.NEGATIVE_INFINITY;
      for (const { from, to, rows: counted, fetchedAt, origin, evidence } of list) {
        const count = (rowsOf.get(symbol) ?? []).filter(({ t }) => from <= t && t < to).length;
        if (count !== counted) yield `counts: ${name} [${from}, ${to}) has ${count} rows, coverage counts ${counted}`;
        if (from < last || to <= from || floorToDay(to - 1) !== floorToDay(from))
          yield `coverage: ${name} [${from}, ${to}) overlaps or spans days`;
        if (!claimed.some((one) => one.fetchedAt === fetchedAt && one.from < to && from < one.to))
          yield `coverage: ${name} [${from}, ${to}) matches no file of ${fetchedAt}`;
        if (fetchedAt > nowMs || origin !== 'import' || evidence !== 'declared')
          yield `coverage: ${name} [${from}, ${to}) is of ${origin}, ${evidence}, ${fetchedAt}`;
        last = to;
      }
    }
  }

  function* runs(dataset: SeriesName, published: ReadonlyMap<string, SeriesRow>, db: Database): Generator<string> {
    const waiting = new Map(
      db
        .all<{ run_id: string; n: number }>(
          `select j.run_id, sum(k.n) as n from journal_series k join journal j on j.id = k.record_id
           where k.dataset = ? group by j.run_id`,
          dataset,
        )
        .map(({ run_id, n }) => [run_id, n]),
    );
    let sum = 0;
    const counts = db.all<Record<string, number> & { run_id: string }>(
      'select * from series_counts where dataset = ?',
      dataset,
    );
    for (const run of counts) {
      const n = run as unknown as Record<string, number>;
      const accounted = n.accepted! + n.duplicates! + n.conflicts! + n.quarantined! + (waiting.get(run.run_id) ?? 0);
      if (n.fetched !== accounted)
        yield `counts: run ${run.run_id} fetched ${n.fetched} rows of ${dataset}, and ${accounted} are accounted for`;
      sum += n.accepted! + n.recovered!;
    }
    if (published.size - baseRows[dataset] !== sum)
      yield `counts: ${sum} rows of ${dataset} were accepted, ${published.size - baseRows[dataset]} are published`;
  }

  return {
    *findings(manifest, db, nowMs) {
      for (const dataset of seriesNames) {
        const published = listPublished(dataset, manifest);
        yield* files(dataset, manifest);
        yield* rows(dataset, published, db);
        yield* coverage(dataset, manifest, published, db, nowMs);
        yield* runs(dataset, published, db);
        for (const { key, sentence } of conflicts(dataset, manifest, published, db))
          if (!forgiven.has(keyOf(dataset, key))) yield sentence;
      }
    },
    rows: (manifest) => ({ quotes: listPublished('quotes', manifest), trades: listPublished('trades', manifest) }),
    claims: (manifest) => ({ quotes: listClaims('quotes', manifest), trades: listClaims('trades', manifest) }),
    noteLost(lost, damaged, manifest, db) {
      for (const dataset of seriesNames) {
        baseRows[dataset] -= lost[dataset];
        if (!damaged.has(conflictDatasets[dataset])) continue;
        const published = listPublished(dataset, manifest);
        for (const { key } of conflicts(dataset, manifest, published, db)) forgiven.add(keyOf(dataset, key));
      }
    },
    reset(manifest) {
      for (const dataset of seriesNames) baseRows[dataset] = listPublished(dataset, manifest).size;
    },
  };
}

/** What a repair has lost. No remaining row may differ, and no removed row may still be covered. */
export function findLostSeries(
  before: SeriesRows,
  beforeClaims: SeriesClaims,
  now: SeriesRows,
  claims: SeriesClaims,
): Record<SeriesName, string[]> {
  const lost = { quotes: [] as string[], trades: [] as string[] };
  for (const dataset of seriesNames) {
    for (const [key, row] of before[dataset]) {
      const remaining = now[dataset].get(key);
      const name = `${dataset} ${JSON.stringify(key)}`;
      if (remaining !== undefined) {
        if (JSON.stringify(remaining.cells) !== JSON.stringify(row.cells))
          throw new Error(`repair: ${name} was ${row.cells} and is ${remaining.cells}`);
        continue;
      }
      if (claims[dataset].get(row.symbol)?.some(({ from, to }) => from <= row.t && row.t < to))
        throw new Error(`repair: ${name} at ${row.t} is gone and covered`);
      lost[dataset].push(key);
    }
    for (const key of now[dataset].keys())
      if (!before[dataset].has(key)) throw new Error(`repair: ${dataset} ${JSON.stringify(key)} was not there before`);
    for (const [symbol, windows] of claims[dataset])
      if (subtractWindows(windows, beforeClaims[dataset].get(symbol) ?? []).length > 0)
        throw new Error(`repair: ${dataset} of ${symbol} are covered where they were not before`);
  }
  return lost;
}
