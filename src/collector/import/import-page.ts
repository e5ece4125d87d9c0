import type { CoveredWindow } from '../../archive/format/coverage.ts';
import { isSymbolName } from '../../base/symbol-name.ts';
import type { RejectedInput } from '../../base/ticks.ts';
import { timeEnd, timeMin } from '../../base/time.ts';
import { isEmpty, subtract, type Window } from '../../base/window.ts';
import { decodeTickPage, readDataTime, refuseStatedError } from '../../client/decode.ts';
import type { ColumnBuffers } from '../../client/fast-page-decoder.ts';
import { decodeText, parseObject, UnreadableResponseError } from '../../client/response-body.ts';
import type { DecodedTickPage } from '../../client/upstream.ts';
import { resolveObservedAt, type ValidatedTicks, validateTicks } from '../paging/observation.ts';
import { truncateRaw } from './import-rows.ts';

/** Times are epoch milliseconds. */
interface PageTimes {
  /** When the file was written, at most now. Used if a response does not state when it was generated. */
  readonly writtenAt: number;
  /** Latest time accepted. */
  readonly futureMs: number;
}

/** The content of a saved response. */
export type SavedPage =
  | {
      readonly kind: 'ticks';
      readonly symbol: string;
      readonly observedAt: number;
      readonly validated: ValidatedTicks;
      /** The coverage of this page alone; see `computePageCoverage`. */
      readonly covered: readonly CoveredWindow[];
    }
  | {
      readonly kind: 'markets';
      readonly observedAt: number;
      readonly view: string | null;
      readonly records: readonly unknown[];
    }
  | { readonly kind: 'rejected'; readonly rejected: RejectedInput };

/**
 * Reads a saved response of the tick or the market route. `dataset`: the expected kind, or null for either.
 * @param buffers the ticks may be in these buffers, and are valid until they are passed in again
 * @throws UnreadableResponseError for anything else. Its message is one clause
 */
export function readSavedPage(
  bytes: Uint8Array,
  dataset: 'ticks' | 'markets' | null,
  times: PageTimes,
  buffers?: ColumnBuffers,
): SavedPage {
  if (dataset === 'markets') return readMarketsPage(parseObject(decodeText(bytes)), times);
  let page: DecodedTickPage;
  try {
    page = decodeTickPage(bytes, undefined, buffers);
  } catch (error) {
    if (dataset === 'ticks' || !(error instanceof UnreadableResponseError)) throw error;
    const object = parseObject(decodeText(bytes));
    if (Array.isArray(object.ticks) || !Array.isArray(object.markets)) throw error;
    return readMarketsPage(object, times);
  }
  if (page.symbol === null || !isSymbolName(page.symbol)) {
    const reason = 'the page states no symbol, so the market of its ticks is unknown';
    return { kind: 'rejected', rejected: { reason, raw: truncateRaw(Buffer.from(bytes).toString('utf8')) } };
  }
  const observedAt = resolveObservedAt(page.generatedAt, times.writtenAt, times.futureMs);
  const validated = validateTicks(page, allTime, times.futureMs);
  const covered = computePageCoverage(page, observedAt, validated);
  return { kind: 'ticks', symbol: page.symbol, observedAt, validated, covered };
}

function readMarketsPage(page: Record<string, unknown>, { writtenAt, futureMs }: PageTimes): SavedPage {
  refuseStatedError(page);
  if (!Array.isArray(page.markets)) throw new UnreadableResponseError('no ticks array and no markets array');
  const view = typeof page.view === 'string' && page.view !== '' ? page.view : null;
  const observedAt = resolveObservedAt(readDataTime(page), writtenAt, futureMs);
  return { kind: 'markets', observedAt, view, records: page.markets as unknown[] };
}

/** If more than this share of a page is unusable, the page covers nothing. */
const unusableShareMax = 0.01;

/**
 * Computes the coverage of one saved page. The request is unknown, so a stated range that merely contains the ticks may
 * repeat the request, and does not show where the page was truncated. A stated range from the first to the last tick does. A
 * page without elements is not truncated. Other pages cover nothing, and a backfill fetches their windows.
 * @param observedAt when the response was generated, epoch ms; nothing later is covered
 * @param validated result of `validateTicks` for this page, without a window
 */
function computePageCoverage(
  page: DecodedTickPage,
  observedAt: number,
  validated: ValidatedTicks = validateTicks(page, allTime, observedAt),
): CoveredWindow[] {
  const { from, to, gaps, received } = page;
  if (from === null || to === null) return [];
  if (validated.rejected.length > unusableShareMax * received) return [];
  const span = validated.span;
  const isCutStated = span !== null && from === span.first && (to === span.last || to === span.last + 1);
  if (span !== null && !isCutStated) return [];
  const stated = { from: Math.max(from, timeMin), to: Math.min(to, observedAt, timeEnd) };
  const evidence = span === null ? 'inferred' : 'stated';
  return subtract([stated], gaps)
    .filter((window) => !isEmpty(window))
    .map((window) => ({ ...window, fetchedAt: observedAt, origin: 'import', evidence }));
}

const allTime: Window = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };
