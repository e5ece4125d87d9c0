import { compareUtf8 } from '../../base/symbol-name.ts';
import { intersectTwo, isEmpty, subtract, union, type Window } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import type { CompletenessRules, Gap } from '../completeness/completeness.ts';
import { computeLifetime } from '../completeness/symbol-lifetime.ts';
import type { CoveredDataset } from '../format/datasets.ts';
import type { PublishedFile } from '../format/manifest.ts';
import type { SymbolFacts } from '../format/market.ts';
import { readAllSymbols } from '../journal/symbol-store.ts';
import { selectSymbolsOf } from '../known-state.ts';
import { readCoverageFile } from '../publish/day-tables.ts';
import type { GapList, GapsQuery } from './gaps.ts';

/**
 * Lists the windows of symbols' lifetimes that the published coverage of a dataset other than ticks lacks. The private state
 * knows the coverage of ticks only, so what is journaled is not counted, and the only reason is that nobody asked. The
 * default window is the first to the last moment with coverage or rows of the dataset.
 * @throws DamageError if a coverage file of the window is damaged
 */
export function listDatasetGaps(
  archive: Archive,
  dataset: Exclude<CoveredDataset, 'ticks'>,
  { from, to, symbols, sources = [] }: GapsQuery,
  { lifetimeRules }: CompletenessRules,
  nowMs: number,
): GapList {
  const manifest = archive.readManifest();
  const bySymbol = new Map<string, Window[]>();
  for (const file of manifest.datasets.coverage.files) {
    for (const [symbol, windows] of readCoverageFile(archive, file)[dataset]) {
      const list = bySymbol.get(symbol) ?? [];
      bySymbol.set(symbol, list);
      for (const one of windows) list.push(one);
    }
  }
  const known = computeKnownWindow([...bySymbol.values()].flat(), manifest.datasets[dataset].files);
  const window = { from: from ?? known?.from ?? 0, to: Math.min(nowMs, to ?? known?.to ?? 0) };
  const all = selectSymbolsOf(symbols.length === 0 ? readAllSymbols(archive.state.db) : symbols, sources);
  const gaps = isEmpty(window)
    ? []
    : computeDatasetGaps(
        all.map((facts) => ({ facts, covered: union(bySymbol.get(facts.symbol) ?? []) })),
        window,
        ({ facts, covered }) => {
          const lifetime = computeLifetime(facts, covered, lifetimeRules);
          // Ticks and the time of the import say nothing about when the other data begin and end: what is unknown is a gap.
          return {
            from: facts.opensAt ?? Number.NEGATIVE_INFINITY,
            to: facts.listed ? lifetime.to : Number.POSITIVE_INFINITY,
          };
        },
      );
  return { ...window, count: gaps.length, gaps, provisional: { windows: 0, symbols: 0 } };
}

/** The first to the last moment with coverage or rows; null if there is neither. */
function computeKnownWindow(covered: readonly Window[], files: readonly PublishedFile[]): Window | null {
  const rows = files.flatMap(({ t_min, t_max }) =>
    t_min === null || t_max === null ? [] : [{ from: t_min, to: t_max + 1 }],
  );
  const [first, ...rest] = [...covered, ...rows];
  if (first === undefined) return null;
  return rest.reduce<Window>((a, b) => ({ from: Math.min(a.from, b.from), to: Math.max(a.to, b.to) }), first);
}

interface CoveredSymbol {
  readonly facts: SymbolFacts;
  /** Sorted and disjoint. */
  readonly covered: readonly Window[];
}

/** The uncovered windows of each symbol's lifetime, by symbol and time. Pure. */
function computeDatasetGaps(
  symbols: readonly CoveredSymbol[],
  window: Window,
  getLifetime: (of: CoveredSymbol) => Window,
): Gap[] {
  return symbols
    .toSorted((a, b) => compareUtf8(a.facts.symbol, b.facts.symbol))
    .flatMap((of) => {
      const alive = intersectTwo(getLifetime(of), window);
      if (isEmpty(alive)) return [];
      return subtract([alive], of.covered).map(
        (gap): Gap => ({ ...gap, symbol: of.facts.symbol, reason: 'never asked' }),
      );
    });
}
