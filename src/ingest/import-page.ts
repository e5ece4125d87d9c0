import { isName } from '../core/symbol-name.ts';
import type { Rejected } from '../core/tick.ts';
import type { Window } from '../core/window.ts';
import { decodeTickPage } from '../upstream/decode.ts';
import { decodeText, integerOrNull, parseObject, UnreadableAnswer } from '../upstream/json-response.ts';
import type { DecodedTickPage } from '../upstream/upstream.ts';
import { cutRaw } from './import-rows.ts';
import { momentOf } from './observation-time.ts';
import { type PageCoverage, pageCoverage } from './page-coverage.ts';
import { type Judged, judge } from './validate-ticks.ts';

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
      readonly judged: Judged;
      /** What it covers by itself: see page-coverage.ts. */
      readonly covered: readonly PageCoverage[];
    }
  | {
      readonly kind: 'markets';
      readonly observedAt: number;
      readonly view: string | null;
      readonly records: readonly unknown[];
    }
  | { readonly kind: 'set aside'; readonly rejected: Rejected };

const all: Window = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };

/**
 * Reads a saved answer of the tick or the market route. `dataset`: what it has to be; null for either.
 * @throws UnreadableAnswer for anything else; its message completes "holds"
 */
export function readSavedPage(bytes: Uint8Array, dataset: 'ticks' | 'markets' | null, times: PageTimes): SavedPage {
  if (dataset === 'markets') return marketsIn(parseObject(decodeText(bytes)), times);
  let page: DecodedTickPage;
  try {
    page = decodeTickPage(bytes);
  } catch (error) {
    if (dataset === 'ticks' || !(error instanceof UnreadableAnswer)) throw error;
    const object = parseObject(decodeText(bytes));
    if (Array.isArray(object.ticks) || !Array.isArray(object.markets)) throw error;
    return marketsIn(object, times);
  }
  if (page.symbol === null || !isName(page.symbol)) {
    const reason = 'the page names no symbol: which market its ticks are of is not known';
    return { kind: 'set aside', rejected: { reason, raw: cutRaw(Buffer.from(bytes).toString('utf8')) } };
  }
  const observedAt = momentOf(page.generatedAt, times.writtenAt, times.futureMs);
  const judged = judge(page, all, times.futureMs);
  const covered = pageCoverage(page, observedAt, judged);
  return { kind: 'ticks', symbol: page.symbol, observedAt, judged, covered };
}

function marketsIn(page: Record<string, unknown>, { writtenAt, futureMs }: PageTimes): SavedPage {
  if (!Array.isArray(page.markets)) throw new UnreadableAnswer('no ticks array and no markets array');
  const view = typeof page.view === 'string' && page.view !== '' ? page.view : null;
  const observedAt = momentOf(integerOrNull(page.generated_at), writtenAt, futureMs);
  return { kind: 'markets', observedAt, view, records: page.markets as unknown[] };
}
