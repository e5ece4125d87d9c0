import type { DatasetName } from '../../archive/format/datasets.ts';
import type { Manifest } from '../../archive/format/manifest.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import { readSymbol } from '../../archive/journal/symbols.ts';
import type { ServiceContext } from '../http/context.ts';
import { createFairSemaphore, type FairSemaphore } from '../http/fair-semaphore.ts';
import { createUnknownSymbolError, requireWindow } from '../http/problem-details.ts';
import type { KeyHolder } from '../workspace/owner.ts';
import { type GenerationReader, type HistoryReader, openHistory, type ScanStep } from './history.ts';
import { timeMsMax } from './page-cursor.ts';

/** Shared state of the historical routes. */
export interface HistoricalService {
  readonly context: ServiceContext;
  readonly history: HistoryReader;
  /** Held while a query computes. */
  readonly computeSemaphore: FairSemaphore;
  /** Held for a slice until its response ends: it keeps a query open while computing and while its client reads. */
  readonly streamSemaphore: FairSemaphore;
}

/** Waiting requests per permit. */
const waitingPerPermitMax = 16;

/** Opens the historical service. DuckDB starts with the first query. */
export function openHistoricalService(context: ServiceContext): HistoricalService {
  const { queriesConcurrentMax: permits } = context.settings.service;
  return {
    context,
    history: openHistory(context.archive, context.current, context.random),
    computeSemaphore: createFairSemaphore(permits, waitingPerPermitMax * permits),
    streamSemaphore: createFairSemaphore(permits, waitingPerPermitMax * permits),
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
  readonly symbol: string | null;
  readonly from: number | null;
  readonly to: number | null;
  createStep(manifest: Manifest): ScanStep;
}

/** One historical route: pages of JSON, or a slice. */
export interface HistoricalEndpoint<Query> {
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

/** The known facts of the symbol in a query; null if it has none. @throws ProblemError 404 if the symbol is unknown */
export function findRequestedSymbol({ context }: HistoricalService, symbol: string | undefined): SymbolFacts | null {
  if (symbol === undefined) return null;
  const facts = readSymbol(context.archive.state.db, symbol);
  if (facts !== undefined) return facts;
  throw createUnknownSymbolError();
}

const rowsDefault = 1000;

/** The number of rows of a page; `limitMax` is the maximum of the service. */
export const resolveLimit = (limit: number | undefined, limitMax: number): number =>
  Math.min(limit ?? rowsDefault, limitMax);

/** The last fields of a JSON response. */
export const createEnvelope = (
  { context }: HistoricalService,
  { manifest }: GenerationReader,
  count: number,
  cursor: string | null,
) => ({
  count,
  next_cursor: cursor,
  generated_at: context.clock.nowMs(),
  generation: manifest.generation,
});
