import { readFileSync, statSync } from 'node:fs';
import { precedenceRanks } from '../../../src/archive/format/precedence.ts';
import type { Database } from '../../../src/archive/journal/database.ts';
import { toDoubles } from '../../../src/archive/journal/journal-rows.ts';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import type { CellValue } from '../../../src/archive/parquet/rows.ts';
import { dayMs, floorToDay, type Window } from '../../../src/base/window.ts';
import { keyOf } from './accepted-rows.ts';
import { findCounted } from './reading-order.ts';
import { createRow, isGreater, keyRows, type SeriesName, type SeriesRow, seriesNames } from './series-rows.ts';

/** A row of an accepted file. `record`: its journal record; 0 if it was published at once. */
interface SeriesObservation {
  readonly rank: number;
  readonly observedAt: number;
  readonly row: SeriesRow;
  /** Its cells. */
  readonly text: string;
  readonly record: number;
  /** Whether it is the one of its file that counts for its key. */
  readonly counts: boolean;
}

/** A window that an import has declared. */
export interface SeriesClaim extends Window {
  readonly fetchedAt: number;
}

/** The input of one import, parsed independently. */
export interface SavedSeries {
  readonly rank: number;
  readonly files: readonly { readonly dataset: SeriesName; readonly observedAt: number; readonly rows: SeriesRow[] }[];
  readonly covers: Window | null;
}

/** Published rows by key. */
export type SeriesRows = Readonly<Record<SeriesName, ReadonlyMap<string, SeriesRow>>>;
/** Windows by symbol. */
export type SeriesClaims = Readonly<Record<SeriesName, ReadonlyMap<string, readonly SeriesClaim[]>>>;

/**
 * The possible and required quotes and trades of the archive: a map from keys to the accepted rows, of which the one with the
 * greatest (rank, time of observation, content) is kept. It sees every transaction of the state, and the input of imports.
 */
export interface SeriesModel {
  /** Errors; the first is the most relevant. */
  readonly wrongs: string[];
  seen(dataset: SeriesName): ReadonlyMap<string, readonly SeriesObservation[]>;
  /** All accepted rows of a key, also those before its state or row was lost. */
  ever(dataset: SeriesName, key: string): readonly SeriesObservation[];
  claims(dataset: SeriesName): ReadonlyMap<string, readonly SeriesClaim[]>;
  /** Whether the precedence of a key is unknown, because the state was lost: any of its rows may win. */
  isLoose(dataset: SeriesName, key: string): boolean;
  /** @param isCommit whether the transaction commits a generation; `saved`: the input of its process */
  observe(db: Database, isCommit: boolean, saved: SavedSeries | undefined): void;
  /** An import has ended: all of its input is accepted, or it says otherwise. */
  requireTaken(saved: SavedSeries, summary: Summary): void;
  /** These rows were published and are lost: their next observation counts as the first. `left`: the coverage that is left. */
  lose(lost: Readonly<Record<SeriesName, readonly string[]>>, left: SeriesClaims): void;
  /** The state is lost. Its journal was empty. */
  forget(published: SeriesRows, claims: SeriesClaims): void;
}

export function startSeriesModel(): SeriesModel {
  const create = () => ({
    seen: new Map<string, SeriesObservation[]>(),
    ever: new Map<string, SeriesObservation[]>(),
    claims: new Map<string, SeriesClaim[]>(),
    loose: new Set<string>(),
  });
  const models = { quotes: create(), trades: create() };
  const wrongs: string[] = [];
  /** Accepted inputs: an import may commit another generation after that of its rows. */
  const accepted = new WeakSet<SavedSeries>();
  let last = 0;

  function note(dataset: SeriesName, key: string, observation: SeriesObservation): void {
    for (const map of [models[dataset].seen, models[dataset].ever]) {
      const list = map.get(key);
      if (list === undefined) map.set(key, [observation]);
      else list.push(observation);
    }
  }

  function claim(dataset: SeriesName, symbol: string, window: SeriesClaim): void {
    const { claims } = models[dataset];
    claims.set(symbol, [...(claims.get(symbol) ?? []), window]);
  }

  /** Reads new journal records. Returns the datasets, symbols and days that they have. */
  function observeJournal(db: Database, saved: SavedSeries | undefined): Set<string> {
    const days = new Set<string>();
    const { id } = db.one<{ id: number | null }>('select max(id) as id from journal')!;
    if (id === null || id <= last) return days;
    for (const { dataset, observation, rows } of readJournaledSeries(db, last)) {
      const counted = listCounted(dataset, rows);
      for (const [key, row] of keyRows(dataset, rows)) {
        const text = JSON.stringify(row.cells);
        note(dataset, key, { ...observation, row, text, counts: counted.has(row) });
        days.add(keyOf(dataset, row.symbol, floorToDay(row.t)));
        if (saved === undefined || !hasRow(saved, dataset, observation, text))
          wrongs.push(`journal: a row of ${dataset} is in no file of its import: ${row.symbol} ${text}`);
      }
    }
    const windows = db.all<
      { dataset: SeriesName; symbol: string; t_from: number; t_to: number; fetched_at: number } & Record<string, never>
    >('select dataset, symbol, t_from, t_to, fetched_at from journal_series_coverage where record_id > ?', last);
    for (const { dataset, symbol, t_from: from, t_to: to, fetched_at: fetchedAt } of windows) {
      claim(dataset, symbol, { from, to, fetchedAt });
      days.add(keyOf(dataset, symbol, floorToDay(from)));
    }
    last = id;
    return days;
  }

  /** What a commit accepted from an import, without what it journaled instead. */
  function accept(saved: SavedSeries, journaled: ReadonlySet<string>): void {
    if (accepted.has(saved)) return;
    accepted.add(saved);
    for (const { dataset, observedAt, rows } of saved.files) {
      const counted = listCounted(dataset, rows);
      const common = { rank: saved.rank, observedAt, record: 0 };
      for (const [key, row] of keyRows(dataset, rows))
        if (!journaled.has(keyOf(dataset, row.symbol, floorToDay(row.t))))
          note(dataset, key, { ...common, row, text: JSON.stringify(row.cells), counts: counted.has(row) });
    }
    for (const { dataset, symbol, ...window } of listClaims(saved))
      if (!journaled.has(keyOf(dataset, symbol, floorToDay(window.from)))) claim(dataset, symbol, window);
  }

  const isNoted = (dataset: SeriesName, key: string, rank: number, observedAt: number, row: SeriesRow): boolean =>
    (models[dataset].ever.get(key) ?? []).some(
      (one) => one.rank === rank && one.observedAt === observedAt && one.text === JSON.stringify(row.cells),
    );

  return {
    wrongs,
    seen: (dataset) => models[dataset].seen,
    ever: (dataset, key) => models[dataset].ever.get(key) ?? [],
    claims: (dataset) => models[dataset].claims,
    isLoose: (dataset, key) => models[dataset].loose.has(key),
    observe(db, isCommit, saved) {
      if (db.one("select 1 from sqlite_master where name = 'journal_series'") === undefined) return;
      const journaled = observeJournal(db, saved);
      if (isCommit && saved !== undefined) accept(saved, journaled);
    },
    requireTaken(saved, { exit_code: code, ...summary }) {
      const isTaken = saved.files.flatMap(({ dataset, observedAt, rows }) =>
        [...keyRows(dataset, rows)].map(([key, row]) => isNoted(dataset, key, saved.rank, observedAt, row)),
      );
      // If another run holds the lock, either all is journaled, or the import has not read its files.
      if (code === 5 && isTaken.includes(true) && isTaken.includes(false))
        wrongs.push('import: only a part of the input is journaled');
      if (code !== 0) return;
      if (isTaken.includes(false)) wrongs.push('import: exit 0, and a row is neither published nor journaled');
      for (const dataset of seriesNames) {
        const count = saved.files.reduce((sum, file) => sum + (file.dataset === dataset ? file.rows.length : 0), 0);
        const fetched = summary[dataset]?.fetched ?? 0;
        if (fetched !== count)
          wrongs.push(`counts: ${count} rows of ${dataset} in the files, and ${fetched} were fetched`);
      }
    },
    lose(lost, left) {
      for (const dataset of seriesNames) {
        const { seen, loose } = models[dataset];
        const moments = new Set(lost[dataset].map((key) => momentOf(seen.get(key)![0]!)));
        for (const key of lost[dataset]) {
          seen.delete(key);
          loose.delete(key);
        }
        // Trades of one millisecond share their precedence, that of the lost ones included.
        for (const [key, [first]] of seen) if (moments.has(momentOf(first!))) loose.add(key);
        models[dataset].claims = new Map([...left[dataset]].map(([symbol, windows]) => [symbol, [...windows]]));
      }
    },
    forget(published, claims) {
      last = 0;
      for (const dataset of seriesNames) {
        const model = models[dataset];
        const kept = [...model.seen].filter(([key]) => published[dataset].has(key));
        model.seen = new Map(kept.map(([key, list]) => [key, list.map((one) => ({ ...one, record: 0 }))]));
        model.loose = new Set(model.seen.keys());
        model.claims = new Map([...claims[dataset]].map(([symbol, windows]) => [symbol, [...windows]]));
      }
    },
  };
}

const momentOf = ({ row }: SeriesObservation): string => keyOf(row.symbol, row.t);

/** The rows of one file that count, of those with one key. Of trades all do. */
export function listCounted(dataset: SeriesName, rows: readonly SeriesRow[]): Set<SeriesRow> {
  if (dataset === 'trades') return new Set(rows);
  return new Set(
    [...Map.groupBy(rows, ({ symbol }) => symbol).values()].flatMap((ofSymbol) => {
      const counted = findCounted(
        ofSymbol.map(({ t }) => t),
        (a, b) => isGreater(dataset, ofSymbol[a]!, ofSymbol[b]!),
      );
      return ofSymbol.filter((_, i) => counted.has(i));
    }),
  );
}

/** The row to publish: that with the greatest (rank, time of observation, content) of those that count. */
export const pickWinningRow = (dataset: SeriesName, observations: readonly SeriesObservation[]): SeriesObservation =>
  observations
    .filter(({ counts }) => counts)
    .reduce((a, b) =>
      (
        b.rank !== a.rank
          ? b.rank > a.rank
          : b.observedAt !== a.observedAt
            ? b.observedAt > a.observedAt
            : isGreater(dataset, b.row, a.row)
      )
        ? b
        : a,
    );

const hasRow = (
  { rank, files }: SavedSeries,
  dataset: SeriesName,
  observation: { readonly rank: number; readonly observedAt: number },
  text: string,
): boolean =>
  rank === observation.rank &&
  files.some(
    (file) =>
      file.dataset === dataset &&
      file.observedAt === observation.observedAt &&
      file.rows.some(({ cells }) => JSON.stringify(cells) === text),
  );

/** The windows that an import declares, by dataset and symbol: up to the last modification of its files. */
function listClaims({ files, covers }: SavedSeries) {
  if (covers === null) return [];
  return seriesNames.flatMap((dataset) => {
    const own = files.filter((file) => file.dataset === dataset);
    const fetchedAt = Math.max(...own.map(({ observedAt }) => observedAt));
    const symbols = new Set(own.flatMap(({ rows }) => rows.map(({ symbol }) => symbol)));
    const windows = splitDays({ from: covers.from, to: Math.min(covers.to, fetchedAt) });
    return [...symbols].flatMap((symbol) => windows.map((window) => ({ dataset, symbol, ...window, fetchedAt })));
  });
}

function splitDays({ from, to }: Window): Window[] {
  const days: Window[] = [];
  for (let start = from; start < to; ) {
    const end = Math.min(to, floorToDay(start) + dayMs);
    days.push({ from: start, to: end });
    start = end;
  }
  return days;
}

function* readJournaledSeries(db: Database, after: number) {
  interface Row {
    record_id: number;
    dataset: SeriesName;
    symbol: string;
    n: number;
    t: Uint8Array;
    v: Uint8Array;
    rank: number;
    observed_at: number;
  }
  const rows = db.all<Row & Record<string, never>>(
    `select k.record_id, k.dataset, k.symbol, k.n, k.t, k.v, j.rank, j.observed_at
     from journal_series k join journal j on j.id = k.record_id where k.record_id > ?`,
    after,
  );
  for (const { record_id: record, dataset, symbol, n, t, v, rank, observed_at: observedAt } of rows) {
    const times = toDoubles(t);
    const numberCount = dataset === 'quotes' ? 4 : 3;
    const numbers = toDoubles(v.subarray(0, numberCount * n * 8));
    const numberAt = (c: number, i: number): number | null =>
      Number.isNaN(numbers[c * n + i]) ? null : numbers[c * n + i]!;
    const texts = readPackedTexts(v.subarray(numberCount * n * 8), n);
    const textAt = (c: number, i: number): string | null => texts[c]?.[i] ?? null;
    const cellsAt = (i: number): CellValue[] => {
      if (dataset === 'quotes') return [times[i]!, ...[0, 1, 2, 3].map((c) => numberAt(c, i))];
      const block = numberAt(2, i);
      const facts = [textAt(0, i), numberAt(0, i), numberAt(1, i), textAt(1, i), block === null ? null : block !== 0];
      return [times[i]!, ...facts, ...[2, 3, 4].map((c) => textAt(c, i))];
    };
    const series = Array.from(times, (_, i) => createRow(dataset, symbol, cellsAt(i)));
    yield { dataset, observation: { rank, observedAt, record }, rows: series };
  }
}

/**
 * Reads the texts of a journal record by column, null for a column without any: a mark, then for each column 0, or 1 with the
 * length of each text (int32, -1 for none) and their bytes.
 */
function readPackedTexts(packed: Uint8Array, rows: number): ((string | null)[] | null)[] {
  const columns: ((string | null)[] | null)[] = [];
  const bytes = Buffer.from(packed);
  if (bytes.length > 0 && bytes[0] !== 1) throw new Error(`texts are in an unknown form: ${bytes[0]}`);
  for (let at = 1; at < bytes.length; ) {
    if (bytes[at++] === 0) {
      columns.push(null);
      continue;
    }
    let textAt = at + 4 * rows;
    const texts: (string | null)[] = [];
    for (let i = 0; i < rows; i++) {
      const length = bytes.readInt32LE(at + 4 * i);
      texts.push(length < 0 ? null : bytes.toString('utf8', textAt, textAt + length));
      textAt += Math.max(0, length);
    }
    columns.push(texts);
    at = textAt;
  }
  return columns;
}

/** The rows in the flags of an import; undefined for any other job, and for an import of saved pages. */
export function readSavedSeries(flags: unknown): SavedSeries | undefined {
  const { paths, preferred, covers } = (flags ?? {}) as {
    paths?: readonly string[];
    preferred?: boolean;
    covers?: Window | null;
  };
  if (!paths?.[0]?.endsWith('.ndjson')) return undefined;
  const rank = preferred ? precedenceRanks.preferred : precedenceRanks.import;
  return { rank, files: paths.map(readSeriesFile), covers: covers ?? null };
}

function readSeriesFile(path: string): SavedSeries['files'][number] {
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  const objects = lines.map((line) => JSON.parse(line) as Record<string, CellValue>);
  const dataset = 'price' in objects[0]! ? 'trades' : 'quotes';
  const rows = objects.map((one) => {
    const cells =
      dataset === 'quotes'
        ? [one.t, one.bid, one.ask, one.bid_size, one.ask_size]
        : [one.t, one.trade_id ?? '=', one.price, one.size, one.aggressor, one.block, null, null, null];
    return createRow(
      dataset,
      one.symbol as string,
      cells.map((cell) => cell ?? null),
    );
  });
  return { dataset, observedAt: Math.floor(statSync(path).mtimeMs), rows };
}
