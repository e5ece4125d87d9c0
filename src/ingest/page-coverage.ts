import type { Evidence } from '../core/coverage.ts';
import { timeEnd, timeMin } from '../core/time.ts';
import { isEmpty, subtract, type Window } from '../core/window.ts';
import type { DecodedTickPage } from '../upstream/upstream.ts';
import { type ValidatedTicks, validateTicks } from './observation.ts';

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
