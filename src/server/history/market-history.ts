import type { DatasetName } from '../../archive/format/datasets.ts';
import { listFilesWithRows, type Manifest, type PublishedFile } from '../../archive/format/manifest.ts';
import { symbolDetailColumns } from '../../archive/format/market-details.ts';
import { createFileFilter } from '../../archive/publish/prune-files.ts';
import type { CellValue } from '../../archive/query/convert-values.ts';
import { buildFromWhere, type DatasetSlice, type SqlCondition } from '../../archive/query/slice-query.ts';
import type { GenerationReader } from './history.ts';
import { type AddValue, createCondition, createPublishedSlice } from './scan-plan.ts';

/** A filter of markets; null values and an empty list of words match any. Times are epoch milliseconds, half-open. */
export interface MarketsQuery {
  readonly source: string | null;
  readonly category: string | null;
  readonly symbol: string | null;
  readonly canonicalId: string | null;
  readonly event: string | null;
  /** Texts that must all occur in question, symbol, category, source or canonical_id; case is ignored. */
  readonly words: readonly string[];
  readonly resolved: boolean | null;
  readonly from: number | null;
  readonly to: number | null;
}

/** Key of the last market of a page; the symbol is empty for a market without one. */
export interface MarketPosition {
  readonly canonicalId: string;
  readonly symbol: string;
}

export interface MarketsPage {
  /** Items by column name; `states` is the number of states, `history` the latest of them. */
  readonly markets: readonly Readonly<Record<string, CellValue>>[];
  /** Number of matching markets on all pages. */
  readonly total: number;
  readonly next: MarketPosition | null;
}

/** Maximum number of states in the history of a market; the latest are kept. */
export const historyMax = 50;

/** The files that contain the markets of a window and their symbols. */
export const selectMarketFiles = (
  manifest: Manifest,
  window: { readonly from: number | null; readonly to: number | null },
): ReadonlyMap<DatasetName, readonly PublishedFile[]> =>
  new Map([
    ['markets', manifest.datasets.markets.files.filter(createFileFilter('markets', [], window))],
    ['symbols', listFilesWithRows(manifest, 'symbols')],
  ]);

/** Columns of details in responses. The text of the rules is long, and its hash tells whether it changed. */
export const responseDetails: readonly string[] = symbolDetailColumns.map(([, column]) => column);

/** Columns of the latest state that responses contain or filters use. */
const responseColumns = `canonical_id, symbol, source, question, category, confidence, views, is_active, closes_at,
  resolved_at, outcome, ${responseDetails.join(', ')}`;

/** Selects the states in the window; only those of one market if the filter names a market. */
const formatNameConditions = (filter: MarketsQuery, value: AddValue): string => {
  const { symbol, canonicalId } = filter;
  const nameConditions = [
    ...(canonicalId === null ? [] : [`canonical_id = ${value(canonicalId)}`]),
    ...(symbol === null ? [] : [`symbol = ${value(symbol)}`]),
  ];
  return buildFromWhere(
    createPublishedSlice('markets', filter, { sql: nameConditions.join(' AND ') || 'true', values: [] }),
    null,
  );
};

/** Selects each matching market once, in its last known state, from `states`. */
const formatMatchConditions = (filter: MarketsQuery, states: string, value: AddValue): string => {
  const { source, category, event, words, resolved } = filter;
  const searchText = 'concat_ws(chr(10), m.question, m.symbol, m.category, m.source, m.canonical_id)';
  const isResolved = 'coalesce(m.outcome IS NOT NULL OR m.resolved_at <= last_seen, false)';
  const parts = [
    ...(source === null ? [] : [`m.source = ${value(source)}`]),
    ...(category === null ? [] : [`m.category = ${value(category)}`]),
    ...(event === null ? [] : [`m.event = ${value(event)}`]),
    ...(resolved === null ? [] : [resolved ? isResolved : `NOT ${isResolved}`]),
    ...words.map((word) => `contains(lower(${searchText}), lower(${value(word)}))`),
  ];
  return `SELECT canonical_id, s, m, first_seen, last_seen FROM (
      SELECT canonical_id, coalesce(symbol, '') AS s, arg_max(struct_pack(${responseColumns}), first_seen) AS m,
             min(first_seen) AS first_seen, max(last_seen) AS last_seen
      FROM ${states} GROUP BY 1, 2
    ) WHERE ${parts.join(' AND ') || 'true'}`;
};

/** Columns of a state; a new state begins when one of them changes. */
const stateColumns = ['views', 'category', 'is_active', 'closes_at', 'resolved_at', 'outcome'];

/** Reads one page of markets, sorted by canonical_id and symbol. */
export async function readMarketsPage(
  generation: GenerationReader,
  filter: MarketsQuery,
  { after, limit }: { readonly after: MarketPosition | null; readonly limit: number },
  signal: AbortSignal,
): Promise<MarketsPage> {
  const { sql, values } = createCondition((value) => [formatPageQuery(filter, after, limit + 1, value)]);
  const query = await generation.openQuery(selectMarketFiles(generation.manifest, filter), [], signal);
  let rows: readonly Readonly<Record<string, CellValue>>[];
  try {
    rows = await query.readRows(sql, values, signal);
  } finally {
    await query.close();
  }
  const total = Number(rows[0]!.total);
  const rowsFound = rows.flatMap(({ total, ...market }) => (market.canonical_id === null ? [] : [market]));
  const markets = rowsFound.slice(0, limit);
  const last = markets.at(-1);
  const next =
    rowsFound.length > limit && last !== undefined
      ? { canonicalId: String(last.canonical_id), symbol: String(last.symbol ?? '') }
      : null;
  return { markets, total, next };
}

function formatPageQuery(filter: MarketsQuery, after: MarketPosition | null, rowsMax: number, value: AddValue): string {
  const nameConditions = formatNameConditions(filter, value);
  const matched = formatMatchConditions(filter, 'named', value);
  const id = after === null ? '' : value(after.canonicalId);
  const afterCondition =
    after === null ? 'true' : `canonical_id >= ${id} AND (canonical_id > ${id} OR s > ${value(after.symbol)})`;
  const state = stateColumns.map((name) => `h.${name}`).join(', ');
  // Opening the files of every day is most of the work, so they are read once.
  return `WITH named AS MATERIALIZED (SELECT ${responseColumns}, first_seen, last_seen FROM ${nameConditions}),
  matched AS MATERIALIZED (${matched}),
  page AS MATERIALIZED (SELECT * FROM matched WHERE ${afterCondition} ORDER BY canonical_id, s LIMIT ${rowsMax}),
  shown AS (
    SELECT h.*, coalesce(h.symbol, '') AS s FROM named AS h
    WHERE (h.canonical_id, coalesce(h.symbol, '')) IN (SELECT (canonical_id, s) FROM page)
  ), marked AS (
    SELECT h.*, row(${state}) IS DISTINCT FROM lag(row(${state})) OVER states AS is_new
    FROM shown AS h WINDOW states AS (PARTITION BY h.canonical_id, h.s ORDER BY h.first_seen)
  ), numbered AS (
    SELECT *, sum(is_new::INTEGER) OVER (PARTITION BY canonical_id, s ORDER BY first_seen) AS number FROM marked
  ), lasting AS (
    SELECT canonical_id, s, min(first_seen) AS first_seen, max(last_seen) AS last_seen,
           ${stateColumns.map((name) => `first(${name}) AS ${name}`).join(', ')}
    FROM numbered GROUP BY canonical_id, s, number
  ), histories AS (
    SELECT canonical_id, s, count(*) AS states, list_reverse(list(struct_pack(first_seen, last_seen, ${stateColumns.join(', ')})
             ORDER BY first_seen DESC)[1:${historyMax}]) AS history
    FROM lasting GROUP BY 1, 2
  )
  SELECT (SELECT count(*) FROM matched) AS total, p.canonical_id, p.m.symbol AS symbol, p.m.source AS source,
         p.m.question AS question, p.m.category AS category, p.m.confidence AS confidence, p.m.views AS views,
         p.m.is_active AS is_active, k.opens_at, p.m.closes_at AS closes_at, p.m.resolved_at AS resolved_at,
         p.m.outcome AS outcome, ${responseDetails.map((name) => `p.m.${name} AS ${name}`).join(', ')}, p.first_seen, p.last_seen, k.first_tick, k.last_tick, coalesce(k.ticks, 0) AS ticks,
         h.states, h.history
  FROM (SELECT 1) AS one LEFT JOIN page AS p ON true
  LEFT JOIN histories AS h ON h.canonical_id = p.canonical_id AND h.s = p.s
  LEFT JOIN symbols AS k ON k.symbol = p.m.symbol
  ORDER BY p.canonical_id, p.s`;
}

/** The rows of the matching markets: every state of every day in the window. */
export function createMarketsSlice(filter: MarketsQuery): DatasetSlice {
  const { source, category, event, symbol, canonicalId, words, resolved } = filter;
  const all =
    [source, category, event, symbol, canonicalId, resolved].every((one) => one === null) && words.length === 0;
  const condition: SqlCondition = createCondition((value) =>
    all
      ? []
      : [
          `(canonical_id, coalesce(symbol, '')) IN (SELECT (canonical_id, s) FROM (${formatMatchConditions(filter, formatNameConditions(filter, value), value)}))`,
        ],
  );
  return createPublishedSlice('markets', filter, condition);
}
