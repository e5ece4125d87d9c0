import type { DatasetName } from '../../archive/format/datasets.ts';
import type { Manifest } from '../../archive/format/manifest.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import { readSymbol } from '../../archive/journal/symbol-store.ts';
import { watchKnownWindow } from '../../archive/read/gaps.ts';
import type { SymbolRowReader } from '../../archive/read/symbol-row-reader.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import type { Window } from '../../base/window.ts';
import { createFairSemaphore, type FairSemaphore } from '../http/fair-semaphore.ts';
import { createUnknownSymbolError, requireWindow } from '../http/problem-details.ts';
import type { ServiceContext } from '../http/service-context.ts';
import type { KeyHolder } from '../workspace/owner.ts';
import { type GenerationReader, type HistoryReader, openHistory, type ScanStep } from './history.ts';
import { type MarketTables, openMarketTables } from './market-table.ts';
import { timeMsMax } from './page-cursor.ts';
import { openSymbolRows } from './symbol-pages.ts';

/** Shared state of the historical routes. */
export interface HistoricalService {
  readonly context: ServiceContext;
  readonly history: HistoryReader;
  /** Reads named symbols. */
  readonly symbolRows: SymbolRowReader;
  readonly marketTables: MarketTables;
  /** Reads the window from the first to the last moment with data, up to a time in epoch ms; null if there is no data. */
  readonly readKnownWindow: (nowMs: number) => Window | null;
  /** Held while a query is computing. */
  readonly computeSemaphore: FairSemaphore;
  /** Held for a slice until its response ends, because its query stays open while the client reads. */
  readonly streamSemaphore: FairSemaphore;
}

/**
 * Maximum number of waiting pages per permit. A turn of the event loop may bring a request on each connection of a client,
 * and after a publish most of their pages have to be read. They are read in milliseconds, so that few need to be rejected.
 */
const waitingPagesPerPermitMax = 64;

/** The same for slices, whose permits are held for as long as the clients read. */
const waitingSlicesPerPermitMax = 16;

/** Opens the historical service. DuckDB starts with the first query. */
export function openHistoricalService(context: ServiceContext): HistoricalService {
  const { queriesConcurrentMax: permits, cacheBytesMax } = context.settings.service;
  return {
    context,
    history: openHistory(context.archive, context.current, context.files, context.random),
    symbolRows: openSymbolRows(cacheBytesMax, context.current),
    readKnownWindow: watchKnownWindow(context.archive.state.db, context.current),
    marketTables: openMarketTables(cacheBytesMax / 4, context.current, context.signal),
    computeSemaphore: createFairSemaphore(permits, waitingPagesPerPermitMax * permits),
    streamSemaphore: createFairSemaphore(permits, waitingSlicesPerPermitMax * permits),
  };
}

/** The historical service for the holder of one API key. Holders take turns in the queue. */
export const scopeToKeyHolder = (service: HistoricalService, { id }: KeyHolder): HistoricalService => ({
  ...service,
  computeSemaphore: service.computeSemaphore.forHolder(id),
  streamSemaphore: service.streamSemaphore.forHolder(id),
});

/** A request for a slice as a file. */
export interface SliceRequest {
  /** The dataset that defines the columns. */
  readonly dataset: DatasetName;
  /** First part of the file name. */
  readonly name: string;
  /** Empty for all symbols. */
  readonly symbols: readonly string[];
  readonly from: number | null;
  readonly to: number | null;
  /** Whether it has all columns of the dataset, and all of its rows of the symbols and the window. */
  readonly isUnfiltered: boolean;
  createStep(manifest: Manifest): ScanStep;
}

/** One historical route: pages of JSON, or a slice. */
export interface HistoricalEndpoint<Query> {
  /** Maximum number of rows of a page. */
  readonly limitMax: number;
  readPage(query: Query, signal: AbortSignal): Promise<object>;
  createSlice(query: Query): SliceRequest;
}

interface WindowQuery {
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** The window of a query. @throws ProblemError 400 if it ends before it begins */
export function parseWindowQuery({ from, to }: WindowQuery): {
  readonly from: number | null;
  readonly to: number | null;
} {
  requireWindow(from, to);
  return { from: clampTime(from), to: clampTime(to) };
}

const clampTime = (ms: number | undefined): number | null => (ms === undefined ? null : Math.min(ms, timeMsMax));

/** The facts about the symbol in a query; null if it names none. @throws ProblemError 404 if the symbol is unknown */
export function findRequestedSymbol({ context }: HistoricalService, symbol: string | undefined): SymbolFacts | null {
  if (symbol === undefined) return null;
  const facts = readSymbol(context.archive.state.db, symbol);
  if (facts !== undefined) return facts;
  throw createUnknownSymbolError();
}

/** The same for a repeatable parameter; sorted by UTF-8 bytes, each once. */
export const findRequestedSymbols = (
  service: HistoricalService,
  symbols: string | readonly string[] | undefined,
): readonly SymbolFacts[] =>
  [...new Set([symbols ?? []].flat())]
    .sort(compareUtf8)
    .map((symbol) => findRequestedSymbol(service, symbol))
    .filter((facts) => facts !== null);

const rowsDefault = 1000;

/** Number of rows on a page; `limitMax` is the service's maximum. */
export const resolveLimit = (limit: number | undefined, limitMax: number): number =>
  Math.min(limit ?? rowsDefault, limitMax);

/**
 * The last fields of a JSON response. It was generated when its generation was published: so the same query to the same
 * generation has the same bytes. Before the first publish it is generated by the request.
 */
export const createEnvelope = (
  { context }: HistoricalService,
  { manifest }: GenerationReader,
  count: number,
  cursor: string | null,
) => ({
  count,
  next_cursor: cursor,
  generated_at: manifest.generation === 0 ? context.clock.nowMs() : manifest.created_at,
  generation: manifest.generation,
});
