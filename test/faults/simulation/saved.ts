import { readFileSync } from 'node:fs';
import { precedenceRanks } from '../../../src/archive/format/precedence.ts';
import { subtract, type Window } from '../../../src/base/window.ts';

/** The data of the pages of one import, parsed independently. */
export interface Saved {
  readonly rank: number;
  readonly pages: readonly SavedPage[];
}

interface SavedPage {
  readonly symbol: string;
  readonly observedAt: number;
  readonly ticks: readonly { readonly t: number; readonly p: number }[];
  readonly covered: readonly Window[];
}

/** The pages in the flags of an import; undefined for any other job, and for an import of quotes or trades. */
export function readSaved(flags: unknown): Saved | undefined {
  const { paths, preferred } = (flags ?? {}) as { paths?: readonly string[]; preferred?: boolean };
  if (paths === undefined || paths[0]!.endsWith('.ndjson')) return undefined;
  return { rank: preferred ? precedenceRanks.preferred : precedenceRanks.import, pages: paths.map(pageAt) };
}

function pageAt(path: string): SavedPage {
  const page = JSON.parse(readFileSync(path, 'utf8')) as {
    symbol: string;
    ticks: { t: number; p: number }[];
    from: number;
    to: number;
    generated_at: number;
    gaps?: Window[];
  };
  const { symbol, ticks, from, to, generated_at: observedAt } = page;
  // Ends wider than the ticks may be an echo of the request and prove nothing.
  const times = page.ticks.map(({ t }) => t);
  const isCutStated = from === Math.min(...times) && to - 1 === Math.max(...times);
  const stated = times.length === 0 || isCutStated ? [{ from, to: Math.min(to, observedAt) }] : [];
  return { symbol, observedAt, ticks, covered: subtract(stated, page.gaps ?? []) };
}
