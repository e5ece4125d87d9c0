import type { RejectedInput } from '../core/tick.ts';
import type { Window } from '../core/window.ts';
import { extractElementTexts } from './json-array-elements.ts';
import { decodeText, parseObject, toIntegerOrNull, UnreadableResponseError } from './json-response.ts';
import type { DecodedTickPage } from './upstream.ts';

/**
 * A tick page in any layout, by JSON.parse. This is what a page means; decodeCompact only gets there sooner.
 * @throws UnreadableAnswer for bad UTF-8, broken JSON, no `ticks` array, or an integer `count` that is not its length.
 */
export function decodeJsonPage(bytes: Uint8Array): DecodedTickPage {
  const text = decodeText(bytes);
  const page = parseObject(text);
  const ticks: unknown = page.ticks;
  if (!Array.isArray(ticks)) throw new UnreadableResponseError('no ticks array');
  if (Number.isInteger(page.count) && page.count !== ticks.length) {
    throw new UnreadableResponseError(`a count of ${page.count} over ${ticks.length} ticks`);
  }
  return {
    ...toTickColumns(ticks, text),
    received: ticks.length,
    symbol: typeof page.symbol === 'string' ? page.symbol : null,
    from: toIntegerOrNull(page.from),
    to: toIntegerOrNull(page.to),
    generatedAt: toIntegerOrNull(page.generated_at),
    gaps: parseGaps(page.gaps),
  };
}

function toTickColumns(ticks: readonly unknown[], text: string) {
  const t = new Float64Array(ticks.length);
  const p = new Float64Array(ticks.length);
  const rejected: RejectedInput[] = [];
  let texts: string[] | undefined;
  let kept = 0;
  for (const [index, tick] of ticks.entries()) {
    const reason = findElementFlaw(tick);
    if (reason === undefined) {
      const { t: time, p: price } = tick as { t: number; p: number };
      t[kept] = time;
      p[kept++] = price;
    } else {
      texts ??= extractElementTexts(text, 'ticks');
      rejected.push({ reason, raw: texts[index]! });
    }
  }
  return { t: t.slice(0, kept), p: p.slice(0, kept), rejected };
}

function findElementFlaw(tick: unknown): string | undefined {
  if (typeof tick !== 'object' || tick === null || Array.isArray(tick)) return 'is not an object';
  const { t, p } = tick as Record<string, unknown>;
  return findNumberFlaw('t', t) ?? findNumberFlaw('p', p);
}

function findNumberFlaw(name: string, value: unknown): string | undefined {
  if (value === undefined) return `${name} is missing`;
  if (typeof value !== 'number') return `${name} is not a number`;
  return Number.isFinite(value) ? undefined : `${name} is not finite`;
}

/** More gaps than this in one answer count as one, from the first to the last: what is between is worth no such list. */
const gapsMax = 1_000;

/**
 * `gaps` as {from, to} objects or [from, to] pairs, rounded outwards to whole milliseconds. It is no documented field,
 * so whatever else stands there is somebody else's business and ignored.
 */
function parseGaps(value: unknown): Window[] {
  if (!Array.isArray(value)) return [];
  const gaps: Window[] = [];
  for (const item of value as unknown[]) {
    if (typeof item !== 'object' || item === null) continue;
    const { from, to } = Array.isArray(item)
      ? { from: item[0] as unknown, to: item[1] as unknown }
      : (item as Record<string, unknown>);
    if (!Number.isFinite(from) || !Number.isFinite(to)) continue;
    const gap = { from: Math.floor(from as number), to: Math.ceil(to as number) };
    if (gap.from < gap.to) gaps.push(gap);
  }
  if (gaps.length <= gapsMax) return gaps;
  return [gaps.reduce((all, gap) => ({ from: Math.min(all.from, gap.from), to: Math.max(all.to, gap.to) }))];
}
