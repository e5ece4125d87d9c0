import type { Evidence } from '../../archive/format/coverage.ts';
import { isSymbolName } from '../../base/symbol-name.ts';
import type { RejectedInput } from '../../base/ticks.ts';
import { timeEnd, timeMin } from '../../base/time.ts';
import { isEmpty, subtract, type Window } from '../../base/window.ts';
import { decodeTickPage } from '../../client/decode.ts';
import { decodeText, parseObject, toIntegerOrNull, UnreadableResponseError } from '../../client/json-response.ts';
import type { DecodedTickPage } from '../../client/upstream.ts';
import { resolveObservedAt, type ValidatedTicks, validateTicks } from '../paging/observation.ts';
import { truncateRaw } from './import-rows.ts';

/** Times are epoch milliseconds. */
export interface PageTimes {
  /** When the file was written, at most now: what stands in where an answer does not say when it was generated. */
  readonly writtenAt: number;
  /** The latest time that is believed. */
  readonly futureMs: number;
}

/** A saved answer of the service, read. */
export type SavedPage =
  | {
      readonly kind: 'ticks';
      readonly symbol: string;
      readonly observedAt: number;
      readonly judged: ValidatedTicks;
      /** What it covers by itself: see page-coverage.ts. */
      readonly covered: readonly PageCoverage[];
    }
  | {
      readonly kind: 'markets';
      readonly observedAt: number;
      readonly view: string | null;
      readonly records: readonly unknown[];
    }
  | { readonly kind: 'quarantined'; readonly rejected: RejectedInput };

/**
 * Reads a saved answer of the tick or the market route. `dataset`: what it has to be; null for either.
 * @throws UnreadableResponseError for anything else; its message completes "holds"
 */
export function readSavedPage(bytes: Uint8Array, dataset: 'ticks' | 'markets' | null, times: PageTimes): SavedPage {
  if (dataset === 'markets') return readMarketsPage(parseObject(decodeText(bytes)), times);
  let page: DecodedTickPage;
  try {
    page = decodeTickPage(bytes);
  } catch (error) {
    if (dataset === 'ticks' || !(error instanceof UnreadableResponseError)) throw error;
    const object = parseObject(decodeText(bytes));
    if (Array.isArray(object.ticks) || !Array.isArray(object.markets)) throw error;
    return readMarketsPage(object, times);
  }
  if (page.symbol === null || !isSymbolName(page.symbol)) {
    const reason = 'the page names no symbol: which market its ticks are of is not known';
    return { kind: 'quarantined', rejected: { reason, raw: truncateRaw(Buffer.from(bytes).toString('utf8')) } };
  }
  const observedAt = resolveObservedAt(page.generatedAt, times.writtenAt, times.futureMs);
  const judged = validateTicks(page, allTime, times.futureMs);
  const covered = computePageCoverage(page, observedAt, judged);
  return { kind: 'ticks', symbol: page.symbol, observedAt, judged, covered };
}

function readMarketsPage(page: Record<string, unknown>, { writtenAt, futureMs }: PageTimes): SavedPage {
  if (!Array.isArray(page.markets)) throw new UnreadableResponseError('no ticks array and no markets array');
  const view = typeof page.view === 'string' && page.view !== '' ? page.view : null;
  const observedAt = resolveObservedAt(toIntegerOrNull(page.generated_at), writtenAt, futureMs);
  return { kind: 'markets', observedAt, view, records: page.markets as unknown[] };
}

/** A window that a file covers, and why it counts as covered. */
export interface PageCoverage {
  readonly window: Window;
  readonly evidence: Evidence;
}

/** More unusable elements than this share of a page, and it covers nothing. */
const unusableShareMax = 0.01;

/**
 * What one saved page covers by itself. The request is not known, so ends that merely contain the ticks may be an echo of
 * it, and say nothing of where the page was cut. Ends that lie at the first and at the last tick state the cut; a page
 * without elements was not cut at all. Anything else covers nothing: a backfill asks for it.
 * @param observedAt when the response was generated, epoch ms; nothing later is covered
 * @param judged of the same page, every usable tick being asked for
 */
export function computePageCoverage(
  page: DecodedTickPage,
  observedAt: number,
  judged: ValidatedTicks = validateTicks(page, allTime, observedAt),
): PageCoverage[] {
  const { from, to, gaps, received } = page;
  if (from === null || to === null) return [];
  if (judged.rejected.length > unusableShareMax * received) return [];
  const span = judged.span;
  const isCutStated = span !== null && from === span.first && (to === span.last || to === span.last + 1);
  if (span !== null && !isCutStated) return [];
  const stated = { from: Math.max(from, timeMin), to: Math.min(to, observedAt, timeEnd) };
  const evidence = span === null ? 'inferred' : 'stated';
  return subtract([stated], gaps)
    .filter((window) => !isEmpty(window))
    .map((window) => ({ window, evidence }));
}

const allTime: Window = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };
