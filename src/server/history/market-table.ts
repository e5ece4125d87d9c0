import { LRUCache } from 'lru-cache';
import type { DatasetName } from '../../archive/format/datasets.ts';
import type { Manifest, PublishedFile } from '../../archive/format/manifest.ts';
import type { CellValue } from '../../archive/query/convert-values.ts';
import type { ChunkValue } from '../../archive/query/query.ts';
import type { ManifestWatcher } from '../../archive/read/manifest-watcher.ts';
import { shareInFlight } from '../../archive/read/verified-files.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import type { GenerationReader } from './history.ts';
import {
  historyMax,
  type MarketPosition,
  type MarketsPage,
  type MarketsQuery,
  responseDetails,
  selectMarketFiles,
} from './market-history.ts';

/** One row of the dataset: a state of a market on one day. Times are epoch milliseconds. */
interface MarketState {
  readonly symbol: string | null;
  readonly source: string | null;
  readonly question: string | null;
  readonly category: string | null;
  readonly confidence: number | null;
  readonly views: readonly string[];
  readonly is_active: boolean | null;
  readonly closes_at: number | null;
  readonly resolved_at: number | null;
  readonly outcome: number | null;
  /** The columns `responseDetails`. */
  readonly details: Readonly<Record<string, CellValue>>;
  readonly first_seen: number;
  readonly last_seen: number;
}

const stateColumns = [
  ...(['symbol', 'source', 'question', 'category', 'confidence', 'views', 'is_active'] as const),
  ...(['closes_at', 'resolved_at', 'outcome', 'first_seen', 'last_seen'] as const),
] satisfies (keyof MarketState)[];
const timeColumns: ReadonlySet<string> = new Set([
  'closes_at',
  'resolved_at',
  'first_seen',
  'last_seen',
  'expected_end',
]);

interface Market {
  readonly canonicalId: string;
  /** Empty if the market has no symbol. */
  readonly symbol: string;
  /** Sorted by `first_seen`. */
  readonly states: readonly MarketState[];
}

interface SymbolTicks {
  readonly opens_at: number | null;
  readonly first_tick: number | null;
  readonly last_tick: number | null;
  readonly ticks: number;
}

interface MarketTable {
  /** Sorted by canonical ID and symbol. */
  readonly markets: readonly Market[];
  readonly bySymbol: ReadonlyMap<string, readonly Market[]>;
  readonly byCanonicalId: ReadonlyMap<string, readonly Market[]>;
  readonly ticks: ReadonlyMap<string, SymbolTicks>;
  readonly bytes: number;
}

/** Estimated memory of one row without its texts, and with texts of usual length, in bytes. */
const rowBytes = 400;
const usualRowBytes = 800;

/** Number of states to process before yielding: a few milliseconds of work. */
const statesPerSlice = 10_000;

/**
 * Reads pages of markets from a table in memory, which is read by DuckDB once per set of published files. The result is
 * that of the DuckDB plan. Null if the files have too many rows for the memory, and for a search by words, whose rules
 * for letter case are DuckDB's.
 */
export type MarketTables = ReturnType<typeof openMarketTables>;

/**
 * @param bytesMax memory for tables, in bytes; at least 0
 * @param current tables of files that it no longer lists are dropped
 * @param stopSignal aborted when the service stops
 */
export function openMarketTables(bytesMax: number, current: ManifestWatcher, stopSignal: AbortSignal) {
  const tables = new LRUCache<string, MarketTable>({
    maxSize: Math.max(1, Math.floor(bytesMax)),
    sizeCalculation: ({ bytes }) => bytes,
  });
  const loading = new Map<string, Promise<MarketTable>>();
  current.onNewGeneration(({ hashes }) => {
    for (const key of [...tables.keys()])
      if (!key.split(/[ ;]/).every((hash) => hash === '' || hashes.has(hash))) tables.delete(key);
  });

  /** The files for a table: those of all days if they fit, because they serve every window. */
  function chooseFiles(manifest: Manifest, filter: MarketsQuery) {
    const candidates = [selectMarketFiles(manifest, { from: null, to: null }), selectMarketFiles(manifest, filter)];
    return candidates.find(
      (files) => [...files.values()].flat().reduce((sum, { rows }) => sum + rows, 0) * usualRowBytes <= bytesMax,
    );
  }

  /** Requests share the reading, so it does not end with the request that began it. */
  async function getTable(
    generation: GenerationReader,
    files: ReadonlyMap<DatasetName, readonly PublishedFile[]>,
  ): Promise<MarketTable> {
    const key = [...files.values()].map((list) => list.map(({ sha256 }) => sha256).join(' ')).join(';');
    const cached = tables.get(key);
    if (cached !== undefined) return cached;
    return await shareInFlight(loading, key, async () => {
      const table = await readTable(generation, files, stopSignal);
      tables.set(key, table);
      return table;
    });
  }

  return {
    async readPage(
      generation: GenerationReader,
      filter: MarketsQuery,
      page: { readonly after: MarketPosition | null; readonly limit: number },
      signal: AbortSignal,
    ): Promise<MarketsPage | null> {
      const files = chooseFiles(generation.manifest, filter);
      if (files === undefined || filter.words.length > 0) return null;
      return await generation.readFiles(async (pin) => {
        for (const file of [...files.values()].flat()) await pin(file);
        return await selectPage(await getTable(generation, files), filter, page);
      }, signal);
    },
  };
}

async function readTable(
  generation: GenerationReader,
  files: ReadonlyMap<DatasetName, readonly PublishedFile[]>,
  signal: AbortSignal,
): Promise<MarketTable> {
  const query = await generation.openQuery(files, [], signal);
  const texts = new Map<string, string>();
  let bytes = 1;
  const share = <T extends ChunkValue>(value: T): T => {
    if (typeof value !== 'string') return Array.isArray(value) ? (value.map(share) as ChunkValue as T) : value;
    const known = texts.get(value);
    if (known !== undefined) return known as T;
    bytes += 2 * value.length + 50;
    texts.set(value, value);
    return value;
  };
  const ms = (name: string): string => `epoch_ms(${name})::DOUBLE`;
  const markets = new Map<string, { canonicalId: string; symbol: string; states: MarketState[] }>();
  const ticks = new Map<string, SymbolTicks>();
  try {
    const names = [...stateColumns, ...responseDetails].map((name) => (timeColumns.has(name) ? ms(name) : name));
    const statesSql = `SELECT canonical_id, ${names.join(', ')} FROM markets`;
    for await (const chunk of query.readChunks([statesSql], signal)) {
      for (let r = 0; r < chunk[0]!.length; r++) {
        const [id, ...values] = chunk.map((column) => share(column[r]!));
        const fields = stateColumns.map((name, i) => [name, values[i]]);
        const details = responseDetails.map((name, i) => [name, values[stateColumns.length + i]]);
        const state = { ...Object.fromEntries(fields), details: Object.fromEntries(details) } as MarketState;
        const { symbol } = state;
        bytes += rowBytes;
        const key = JSON.stringify([id, symbol ?? '']);
        const market = markets.get(key);
        if (market === undefined)
          markets.set(key, { canonicalId: id as string, symbol: symbol ?? '', states: [state] });
        else market.states.push(state);
      }
    }
    const ticksSql = `SELECT symbol, ${ms('opens_at')}, ${ms('first_tick')}, ${ms('last_tick')}, ticks::DOUBLE FROM symbols`;
    for await (const [symbols, ...rest] of query.readChunks([ticksSql], signal)) {
      for (const [r, symbol] of symbols!.entries()) {
        const [opens, first, last, count] = rest.map((column) => column[r] as number | null);
        bytes += rowBytes;
        ticks.set(share(symbol as string), {
          opens_at: opens!,
          first_tick: first!,
          last_tick: last!,
          ticks: count!,
        });
      }
    }
  } finally {
    await query.close();
  }
  const sorted = [...markets.values()].sort(compareMarkets);
  for (const { states } of sorted) states.sort((a, b) => a.first_seen - b.first_seen);
  return {
    markets: sorted,
    bySymbol: Map.groupBy(sorted, ({ symbol }) => symbol),
    byCanonicalId: Map.groupBy(sorted, ({ canonicalId }) => canonicalId),
    ticks,
    bytes,
  };
}

type MarketKey = Pick<Market, 'canonicalId' | 'symbol'>;

const compareMarkets = (a: MarketKey, b: MarketKey): number =>
  compareUtf8(a.canonicalId, b.canonicalId) || compareUtf8(a.symbol, b.symbol);

function selectStates({ states }: Market, { from, to }: MarketsQuery): readonly MarketState[] {
  const isWithin = ({ first_seen, last_seen }: MarketState): boolean =>
    (from === null || last_seen >= from) && (to === null || first_seen < to);
  // Most windows contain all states of most markets.
  return states.every(isWithin) ? states : states.filter(isWithin);
}

async function selectPage(
  table: MarketTable,
  filter: MarketsQuery,
  { after, limit }: { readonly after: MarketPosition | null; readonly limit: number },
): Promise<MarketsPage> {
  const found: { readonly market: Market; readonly states: readonly MarketState[] }[] = [];
  let total = 0;
  let statesLeft = statesPerSlice;
  for (const market of selectCandidates(table, filter)) {
    statesLeft -= market.states.length;
    if (statesLeft < 0) {
      await new Promise((resolve) => setImmediate(resolve));
      statesLeft = statesPerSlice;
    }
    const states = selectStates(market, filter);
    if (states.length === 0 || !isMatch(states, filter)) continue;
    total++;
    if (found.length <= limit && (after === null || compareMarkets(market, after) > 0)) found.push({ market, states });
  }
  const shown = found.slice(0, limit);
  const last = shown.at(-1)?.market;
  return {
    markets: shown.map(({ market, states }) => toResponseItem(table, market, states)),
    total,
    next: found.length > limit && last !== undefined ? { canonicalId: last.canonicalId, symbol: last.symbol } : null,
  };
}

function selectCandidates(table: MarketTable, { symbol, canonicalId }: MarketsQuery): readonly Market[] {
  const named = symbol === null ? table.markets : (table.bySymbol.get(symbol) ?? []);
  if (canonicalId === null) return named;
  return symbol === null
    ? (table.byCanonicalId.get(canonicalId) ?? [])
    : named.filter((market) => market.canonicalId === canonicalId);
}

/** Whether the last state of a market matches the filters. */
function isMatch(states: readonly MarketState[], { source, category, event, resolved }: MarketsQuery): boolean {
  const latest = states.at(-1)!;
  if (source !== null && latest.source !== source) return false;
  if (category !== null && latest.category !== category) return false;
  if (event !== null && latest.details.event !== event) return false;
  if (resolved === null) return true;
  const lastSeen = states.reduce((max, state) => Math.max(max, state.last_seen), Number.NEGATIVE_INFINITY);
  return resolved === (latest.outcome !== null || (latest.resolved_at !== null && latest.resolved_at <= lastSeen));
}

function toResponseItem(
  { ticks }: MarketTable,
  { canonicalId }: Market,
  states: readonly MarketState[],
): Readonly<Record<string, CellValue>> {
  const latest = states.at(-1)!;
  const { symbol, source, question, category, confidence, views, is_active, closes_at, resolved_at, outcome, details } =
    latest;
  const known = symbol === null ? undefined : ticks.get(symbol);
  const history = joinEqualStates(states);
  return {
    canonical_id: canonicalId,
    symbol,
    source,
    question,
    category,
    confidence,
    views,
    is_active,
    opens_at: known?.opens_at ?? null,
    closes_at,
    resolved_at,
    outcome,
    ...details,
    first_seen: states[0]!.first_seen,
    last_seen: states.reduce((max, state) => Math.max(max, state.last_seen), Number.NEGATIVE_INFINITY),
    first_tick: known?.first_tick ?? null,
    last_tick: known?.last_tick ?? null,
    ticks: known?.ticks ?? 0,
    states: history.length,
    history: history.slice(-historyMax),
  };
}

/** The states, with consecutive equal ones joined: every day begins with a row of its own. */
function joinEqualStates(states: readonly MarketState[]): Record<string, CellValue>[] {
  const joined: (Record<string, CellValue> & { last_seen: number })[] = [];
  let previous: MarketState | undefined;
  for (const state of states) {
    const { first_seen, last_seen, views, category, is_active, closes_at, resolved_at, outcome } = state;
    const last = joined.at(-1);
    if (last !== undefined && previous !== undefined && isSameState(previous, state))
      last.last_seen = Math.max(last.last_seen, last_seen);
    else joined.push({ first_seen, last_seen, views, category, is_active, closes_at, resolved_at, outcome });
    previous = state;
  }
  return joined;
}

const isSameState = (a: MarketState, b: MarketState): boolean =>
  a.category === b.category &&
  a.is_active === b.is_active &&
  a.closes_at === b.closes_at &&
  a.resolved_at === b.resolved_at &&
  a.outcome === b.outcome &&
  a.views.length === b.views.length &&
  a.views.every((view, i) => view === b.views[i]);
