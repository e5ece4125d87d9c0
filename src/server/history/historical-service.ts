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

/** What the routes of the historical surface share. */
export interface HistoricalService {
  readonly context: ServiceContext;
  readonly history: HistoryReader;
  /** Whoever computes is inside. */
  readonly computeSemaphore: FairSemaphore;
  /** Slices on their way to clients: each holds a query, whether it is computed or waits for its client. */
  readonly streamSemaphore: FairSemaphore;
}

/** Requests that may wait, for each that is inside. */
const waitingPerPermit = 16;

/** Opens nothing yet: DuckDB starts with the first query. */
export function openHistoricalService(context: ServiceContext): HistoricalService {
  const { queriesAtOnceMax: atOnce } = context.settings.service;
  return {
    context,
    history: openHistory(context.archive, context.current, context.random),
    computeSemaphore: createFairSemaphore(atOnce, waitingPerPermit * atOnce),
    streamSemaphore: createFairSemaphore(atOnce, waitingPerPermit * atOnce),
  };
}

/** The desk as one holder of a key has it: others get their turn whatever this one asks for. */
export const scopeToKeyHolder = (desk: HistoricalService, { id }: KeyHolder): HistoricalService => ({
  ...desk,
  computeSemaphore: desk.computeSemaphore.forHolder(id),
  streamSemaphore: desk.streamSemaphore.forHolder(id),
});

/** A slice that is asked for as a file. */
export interface SliceRequest {
  /** Whose columns it has. */
  readonly dataset: DatasetName;
  /** What its file is called after. */
  readonly name: string;
  readonly symbol: string | null;
  readonly from: number | null;
  readonly to: number | null;
  createStep(manifest: Manifest): ScanStep;
}

/** One route of the surface: pages of JSON, or a slice. */
export interface HistoricalEndpoint<Query> {
  readPage(query: Query, signal: AbortSignal): Promise<object>;
  createSlice(query: Query): SliceRequest;
}

export interface WindowQuery {
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** The window of a query. @throws ProblemError 400 where it ends before it begins */
export function parseWindowQuery({ from, to }: WindowQuery): {
  readonly from: number | null;
  readonly to: number | null;
} {
  requireWindow(from, to);
  return { from: clampTime(from), to: clampTime(to) };
}

const clampTime = (ms: number | undefined): number | null => (ms === undefined ? null : Math.min(ms, timeMsMax));

/** What is known of a symbol that a query names; null where it names none. @throws ProblemError 404 */
export function findRequestedSymbol({ context }: HistoricalService, symbol: string | undefined): SymbolFacts | null {
  if (symbol === undefined) return null;
  const facts = readSymbol(context.archive.state.db, symbol);
  if (facts !== undefined) return facts;
  throw createUnknownSymbolError();
}

const rowsDefault = 1000;

/** The rows of a page; `most` is what the service allows. */
export const resolveLimit = (limit: number | undefined, most: number): number => Math.min(limit ?? rowsDefault, most);

/** What a JSON answer ends with. */
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
