import type { SymbolFacts } from '../../core/market.ts';
import { computeLifetime } from '../../core/symbol-lifetime.ts';
import { intersectTwo, isEmpty, subtract, union, type Window } from '../../core/window.ts';
import { readCoverageIn } from '../../state/coverage.ts';
import { readLostTicksIn } from '../../state/data-loss.ts';
import type { Database } from '../../state/database.ts';
import { computeHeatmapRows, type GroupedCoverage, type HeatmapRow } from './coverage-heatmap.ts';
import { type GroupingKey, groupSymbols } from './market-groups.ts';

/** Coverage by group and step of time. */
export interface CoverageFacts extends Window {
  readonly stepMs: number;
  readonly groupedBy: GroupingKey;
  /** The group of the most symbols first. */
  readonly rows: readonly HeatmapRow[];
}

interface SymbolCoverage {
  readonly facts: SymbolFacts;
  readonly lifetime: Window;
  readonly covered: readonly Window[];
}

interface CoverageRules {
  readonly stepMs: number;
  readonly groupsMax: number;
  /** Symbols that are polled whatever the lists say; none: those of the lists. */
  readonly named: ReadonlySet<string>;
  readonly nowMs: number;
  /** See LifetimeRules. */
  readonly lookbackMs: number;
  /** The first moment of which anything is known. */
  readonly knownFrom: number;
}

/**
 * How much of the lives of symbols is covered in a span. Nothing is expected of what is still to come, nor of one that
 * is suspended after its last answer.
 */
export function computeCoverageFacts(
  db: Database,
  symbols: readonly SymbolFacts[],
  span: Window,
  { stepMs, groupsMax, named, nowMs, knownFrom, lookbackMs }: CoverageRules,
): CoverageFacts {
  const [coverage, lost] = [readCoverageIn(db, span), readLostTicksIn(db, span)];
  const lived = symbols.flatMap((facts): SymbolCoverage[] => {
    const answers = coverage.get(facts.symbol) ?? [];
    const covered = lost.has(facts.symbol) ? subtract(answers, lost.get(facts.symbol)!) : union(answers);
    const isAsked = named.size === 0 ? facts.listed : named.has(facts.symbol);
    if (covered.length === 0 && facts.ticks === 0 && !isAsked) return [];
    const to = facts.suspendedAt === null ? nowMs : (covered.at(-1)?.to ?? Number.NEGATIVE_INFINITY);
    const life = intersectTwo(computeLifetime(facts, covered, { lookbackMs }), {
      from: Math.max(span.from, knownFrom),
      to: Math.min(span.to, to),
    });
    return isEmpty(life) ? [] : [{ facts, lifetime: life, covered }];
  });
  const groups = groupSymbols(
    lived.map(({ facts }) => facts),
    groupsMax,
  );
  const grouped = lived.map(
    ({ facts, lifetime, covered }): GroupedCoverage => ({ group: groups.getGroupName(facts), lifetime, covered }),
  );
  return { ...span, stepMs, groupedBy: groups.by, rows: computeHeatmapRows(grouped, span, stepMs) };
}
