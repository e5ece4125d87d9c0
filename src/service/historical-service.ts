import type { Manifest } from '../archive/manifest.ts';
import type { DatasetName } from '../archive/parquet/schema.ts';
import type { SymbolFacts } from '../core/market.ts';
import { type Generation, type History, openHistory } from '../reading/history/history.ts';
import type { Step } from '../reading/history/keyset-page.ts';
import { oneSymbol } from '../state/symbols.ts';
import type { KeyHolder } from '../workspace/principal.ts';
import { requireWindow, unknownSymbol } from './common-errors.ts';
import type { ServiceContext } from './context.ts';
import { placeMsMax } from './cursor.ts';
import { createGate, type Gate } from './fair-semaphore.ts';

/** What the routes of the historical surface share. */
export interface Desk {
  readonly context: ServiceContext;
  readonly history: History;
  /** Whoever computes is inside. */
  readonly computing: Gate;
  /** Slices on their way to clients: each holds a query, whether it is computed or waits for its client. */
  readonly streaming: Gate;
}

/** Requests that may wait, for each that is inside. */
const waitingPerPlace = 16;

/** Opens nothing yet: DuckDB starts with the first query. */
export function openDesk(context: ServiceContext): Desk {
  const { queriesAtOnceMax: atOnce } = context.settings.service;
  return {
    context,
    history: openHistory(context.archive, context.current, context.random),
    computing: createGate(atOnce, waitingPerPlace * atOnce),
    streaming: createGate(atOnce, waitingPerPlace * atOnce),
  };
}

/** The desk as one holder of a key has it: others get their turn whatever this one asks for. */
export const deskOf = (desk: Desk, { id }: KeyHolder): Desk => ({
  ...desk,
  computing: desk.computing.of(id),
  streaming: desk.streaming.of(id),
});

/** A slice that is asked for as a file. */
export interface SliceAsked {
  /** Whose columns it has. */
  readonly dataset: DatasetName;
  /** What its file is called after. */
  readonly name: string;
  readonly symbol: string | null;
  readonly from: number | null;
  readonly to: number | null;
  step(manifest: Manifest): Step;
}

/** One route of the surface: pages of JSON, or a slice. */
export interface Endpoint<Query> {
  page(query: Query, signal: AbortSignal): Promise<object>;
  slice(query: Query): SliceAsked;
}

export interface WindowAsked {
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** The window of a query. @throws ProblemError 400 where it ends before it begins */
export function windowOf({ from, to }: WindowAsked): { readonly from: number | null; readonly to: number | null } {
  requireWindow(from, to);
  return { from: clamped(from), to: clamped(to) };
}

const clamped = (ms: number | undefined): number | null => (ms === undefined ? null : Math.min(ms, placeMsMax));

/** What is known of a symbol that a query names; null where it names none. @throws ProblemError 404 */
export function symbolOf({ context }: Desk, symbol: string | undefined): SymbolFacts | null {
  if (symbol === undefined) return null;
  const facts = oneSymbol(context.archive.state.db, symbol);
  if (facts !== undefined) return facts;
  throw unknownSymbol();
}

const rowsUsual = 1000;

/** The rows of a page; `most` is what the service allows. */
export const limitOf = (limit: number | undefined, most: number): number => Math.min(limit ?? rowsUsual, most);

/** What a JSON answer ends with. */
export const envelope = ({ context }: Desk, { manifest }: Generation, count: number, cursor: string | null) => ({
  count,
  next_cursor: cursor,
  generated_at: context.clock.nowMs(),
  generation: manifest.generation,
});
