import type { SymbolFacts } from '../../core/market.ts';
import { lifetimeOf } from '../../core/symbol-lifetime.ts';
import { intersection, isEmpty, subtract, union, type Window } from '../../core/window.ts';
import { coverageIn } from '../../state/coverage.ts';
import { lostTicksIn } from '../../state/data-loss.ts';
import type { Database } from '../../state/database.ts';
import { type HeatRow, heatRows, type LivedSymbol } from './coverage-heatmap.ts';
import { type GroupedBy, groupsOf } from './market-groups.ts';

/** Coverage by group and step of time. */
export interface CoverageFacts extends Window {
  readonly stepMs: number;
  readonly groupedBy: GroupedBy;
  /** The group of the most symbols first. */
  readonly rows: readonly HeatRow[];
}

interface Lived {
  readonly facts: SymbolFacts;
  readonly life: Window;
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
export function coverageFacts(
  db: Database,
  symbols: readonly SymbolFacts[],
  span: Window,
  { stepMs, groupsMax, named, nowMs, knownFrom, lookbackMs }: CoverageRules,
): CoverageFacts {
  const [coverage, lost] = [coverageIn(db, span), lostTicksIn(db, span)];
  const lived = symbols.flatMap((facts): Lived[] => {
    const answers = coverage.get(facts.symbol) ?? [];
    const covered = lost.has(facts.symbol) ? subtract(answers, lost.get(facts.symbol)!) : union(answers);
    const isAsked = named.size === 0 ? facts.listed : named.has(facts.symbol);
    if (covered.length === 0 && facts.ticks === 0 && !isAsked) return [];
    const to = facts.suspendedAt === null ? nowMs : (covered.at(-1)?.to ?? Number.NEGATIVE_INFINITY);
    const life = intersection(lifetimeOf(facts, covered, { lookbackMs }), {
      from: Math.max(span.from, knownFrom),
      to: Math.min(span.to, to),
    });
    return isEmpty(life) ? [] : [{ facts, life, covered }];
  });
  const groups = groupsOf(
    lived.map(({ facts }) => facts),
    groupsMax,
  );
  const grouped = lived.map(
    ({ facts, life, covered }): LivedSymbol => ({ group: groups.nameOf(facts), life, covered }),
  );
  return { ...span, stepMs, groupedBy: groups.by, rows: heatRows(grouped, span, stepMs) };
}
