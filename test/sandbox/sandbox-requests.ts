import { onTestFinished } from 'vitest';
import { systemClock } from '../../src/base/system.ts';
import type { TickColumns } from '../../src/base/ticks.ts';
import type { SandboxMarket } from '../../src/sandbox/feed.ts';
import { type Sandbox, type SandboxDeps, startSandbox } from '../../src/sandbox/sandbox.ts';
import type { SandboxOptions } from '../../src/sandbox/sandbox-options.ts';

/** Current time of the sandboxes in these tests, unless a test changes it. */
export const noon = Date.UTC(2026, 10, 19, 12);
export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

/** A sandbox that stops with the test. */
export async function openSandbox(options: Partial<SandboxOptions> = {}, deps: Partial<SandboxDeps> = {}) {
  const started = await startSandbox(
    { nowMs: noon, ticksPerDay: 1_000, epochMs: noon - 60 * dayMs, ...options },
    { clock: systemClock, ...deps },
  );
  onTestFinished(() => started.stop());
  return started;
}

export interface Page {
  readonly symbol: string;
  readonly ticks: readonly { readonly t: number; readonly p: number }[];
  readonly count: number;
  readonly from: number;
  readonly to: number;
  readonly generated_at: number;
}

interface MarketList {
  readonly markets: readonly SandboxMarket[];
  readonly count: number;
  readonly total: number;
  readonly view: string;
  readonly generated_at: number;
}

type Query = Readonly<Record<string, string | number>>;

export function sendRequest(box: Sandbox, resource: string, query: Query = {}, key = 'sandbox-key'): Promise<Response> {
  const text = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) text.set(name, String(value));
  return fetch(`${box.url}/api/v1/${resource}?${text}`, { headers: { authorization: `Bearer ${key}` } });
}

export async function fetchPage(box: Sandbox, query: Query): Promise<Page> {
  return (await (await sendRequest(box, 'ticks', query)).json()) as Page;
}

export async function fetchMarkets(box: Sandbox, query: Query = {}): Promise<MarketList> {
  return (await (await sendRequest(box, 'markets', query)).json()) as MarketList;
}

export function columns(ticks: Page['ticks']): TickColumns {
  return { t: Float64Array.from(ticks, ({ t }) => t), p: Float64Array.from(ticks, ({ p }) => p) };
}

export function symbolsOf(market: SandboxMarket): string[] {
  return market.venues?.map(({ ticker }) => ticker) ?? [market.symbol!];
}

/** The symbol with the most ticks in the window (by default the last day), and that window. */
export function findBusiest(box: Sandbox, window = { from: noon - dayMs, to: noon }) {
  const counted = box.symbols().map((symbol) => ({ symbol, rows: box.readTruth(symbol, window).t.length }));
  const top = counted.reduce((a, b) => (b.rows > a.rows ? b : a));
  return { symbol: top.symbol, ...window, rows: top.rows };
}
