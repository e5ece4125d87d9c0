import { drawAt } from '../base/random.ts';

/**
 * What can go wrong on purpose, one kind a request.
 * - a number: that status as problem+json; `429-seconds`, `503` carry `Retry-After: 1`, `429-date` an HTTP-date
 * - `reset`: the connection is reset before any header · `reset-body`: amid the body
 * - `half-body`: content-length names the whole, half comes · `half-body-close`: half, its end told by the close only
 * - `bad-json`: 200, unreadable · `html`: 200, a web page
 * - `stall`: nothing for stallMs, then the right answer · `slow-body`: half, nothing for stallMs, then the rest
 * - `wrong-symbol`: another symbol is echoed (ticks and order books) · `wrong-count`: `count` is one too many
 */
export const faultKinds = [
  '429-seconds',
  '429-date',
  '408',
  '425',
  '500',
  '502',
  '503',
  '504',
  'reset',
  'reset-body',
  'half-body',
  'half-body-close',
  'bad-json',
  'html',
  'stall',
  'slow-body',
  'wrong-symbol',
  'wrong-count',
] as const;

export type FaultKind = (typeof faultKinds)[number];

export interface FaultOptions {
  readonly seed: number;
  readonly faultShare: number;
  readonly faults: readonly FaultKind[];
}

/** What befalls the nth request: the same for the same seed. A kind that means nothing to the resource is left out. */
export function drawFault(n: number, resource: 'markets' | 'ticks' | 'orderbook', options: FaultOptions) {
  if (options.faultShare === 0 || drawAt(options.seed ^ 0x0fa17, n) >= options.faultShare) return undefined;
  const kinds = options.faults.filter(
    (kind) =>
      (kind !== 'wrong-symbol' || resource !== 'markets') && (kind !== 'wrong-count' || resource !== 'orderbook'),
  );
  return kinds[Math.floor(drawAt(options.seed ^ 0x0c1d, n) * kinds.length)];
}
