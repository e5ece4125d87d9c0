import { drawAt } from '../base/random.ts';

/**
 * Faults that the sandbox injects, one per request.
 * - a number: that status as problem+json; `429-seconds`, `503` carry `Retry-After: 1`, `429-date` an HTTP-date
 * - `reset`: the connection is reset before any header · `reset-body`: within the body
 * - `half-body`: half of the body that content-length announces · `half-body-close`: half of the body, ended by closing
 *   the connection
 * - `bad-json`: 200, malformed · `html`: 200, a web page
 * - `stall`: nothing for stallMs, then the correct response · `slow-body`: half, nothing for stallMs, then the rest
 * - `wrong-symbol`: echoes another symbol (ticks and order books) · `wrong-count`: `count` is one too high
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

interface FaultOptions {
  readonly seed: number;
  readonly faultShare: number;
  readonly faults: readonly FaultKind[];
}

/** The fault of the nth request, determined by the seed. Kinds that do not apply to the resource are skipped. */
export function drawFault(n: number, resource: 'markets' | 'ticks' | 'orderbook', options: FaultOptions) {
  if (options.faultShare === 0 || drawAt(options.seed ^ 0x0fa17, n) >= options.faultShare) return undefined;
  const kinds = options.faults.filter(
    (kind) =>
      (kind !== 'wrong-symbol' || resource !== 'markets') && (kind !== 'wrong-count' || resource !== 'orderbook'),
  );
  return kinds[Math.floor(drawAt(options.seed ^ 0x0c1d, n) * kinds.length)];
}
