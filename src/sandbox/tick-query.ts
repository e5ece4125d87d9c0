import type { TickColumns } from '../core/tick.ts';
import type { Window } from '../core/window.ts';
import type { Feed } from './feed.ts';
import type { SandboxOptions } from './options.ts';
import { generator, hash, textKey } from './random.ts';
import type { SandboxPage } from './tick-page.ts';
import { visiblePart } from './visible.ts';

export interface TickQuery {
  readonly symbol: string;
  readonly from: number | undefined;
  readonly to: number | undefined;
  readonly limit: number | undefined;
}

/** The window that is answered: what was asked, cut at now and where retention ends; empty where nothing is left. */
export function answeredWindow(query: TickQuery, nowMs: number, options: SandboxOptions): Window {
  const to = Math.min(query.to ?? nowMs, nowMs);
  const from = query.from ?? (query.to ?? nowMs) - options.defaultWindowMs;
  const kept = options.retentionMs === null ? from : Math.max(from, nowMs - options.retentionMs);
  return { from: Math.min(kept, to), to };
}

/** One page as the service would cut, order and repeat it. */
export function tickPage(feed: Feed, query: TickQuery, nowMs: number, options: SandboxOptions): SandboxPage {
  const { symbol } = query;
  const answered = answeredWindow(query, nowMs, options);
  const window = {
    from: answered.from + (options.fromInclusive ? 0 : 1),
    to: answered.to + (options.toInclusive ? 1 : 0),
  };
  const rowsMax = Math.min(options.cap, query.limit ?? options.defaultLimit);
  // Repeats take room from the page, so that it keeps to the cap with them.
  const singlesMax = Math.max(1, Math.floor(rowsMax / (1 + options.repeatShare)));
  const part = { side: options.truncate, rowsMax: singlesMax };
  const { ticks, truncated } = visiblePart(feed, { symbol, window, asOfMs: nowMs }, part, options);
  const span = truncated && options.echoWindow === 'tightened' ? tightened(answered, ticks, options) : answered;
  const shown = ordered(repeated(ticks, rowsMax, options.repeatShare), symbol, options);
  const echoes = options.echoWindow !== 'none';
  return {
    symbol,
    ...shown,
    count: shown.t.length,
    from: echoes ? span.from : null,
    to: echoes ? span.to : null,
    generatedAt: nowMs,
  };
}

/** The window of the kept ticks alone, its ends inclusive or exclusive as the service's ends are. */
function tightened(answered: Window, { t }: TickColumns, options: SandboxOptions): Window {
  if (options.truncate === 'earliest') return { from: answered.from, to: t.at(-1)! + (options.toInclusive ? 0 : 1) };
  return { from: t[0]! - (options.fromInclusive ? 0 : 1), to: answered.to };
}

function repeated(ticks: TickColumns, rowsMax: number, share: number): TickColumns {
  const singles = ticks.t.length;
  const repeats = Math.min(rowsMax - singles, Math.floor(singles * share));
  if (repeats <= 0) return ticks;
  const t = new Float64Array(singles + repeats);
  const p = new Float64Array(singles + repeats);
  let row = 0;
  for (let i = 0; i < singles; i++) {
    // Spread evenly: after i + 1 singles, as many repeats as their share of all.
    const end = i + 1 + Math.floor(((i + 1) * repeats) / singles);
    t.fill(ticks.t[i]!, row, end);
    p.fill(ticks.p[i]!, row, end);
    row = end;
  }
  return { t, p };
}

function ordered(ticks: TickColumns, symbol: string, { order, seed }: SandboxOptions): TickColumns {
  if (order === 'ascending') return ticks;
  if (order === 'newest-first') return { t: ticks.t.toReversed(), p: ticks.p.toReversed() };
  const t = ticks.t.slice();
  const p = ticks.p.slice();
  const random = generator(hash(textKey(seed, symbol), t[0] ?? 0));
  for (let i = t.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [t[i], t[j]] = [t[j]!, t[i]!];
    [p[i], p[j]] = [p[j]!, p[i]!];
  }
  return { t, p };
}
