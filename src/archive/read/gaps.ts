import { UsageError } from '../../base/errors.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { formatDay } from '../../base/time.ts';
import { dayMs, floorToDay, intersectTwo, isEmpty, subtract, union, type Window } from '../../base/window.ts';
import { listOpenDays, type OpenDay, type OpenDayList, toOpenDayList } from '../../contract/day-reasons.ts';
import type { Archive } from '../archive.ts';
import {
  type Completeness,
  type CompletenessRules,
  computeCompleteness,
  type Gap,
} from '../completeness/completeness.ts';
import { computeLifetime, isActive } from '../completeness/symbol-lifetime.ts';
import type { CoveredDataset } from '../format/datasets.ts';
import type { PublishedFile } from '../format/manifest.ts';
import type { SymbolFacts } from '../format/market.ts';
import type { Database } from '../journal/database.ts';
import { readAllSymbols } from '../journal/symbol-store.ts';
import { readCurrentState, readKnownWindow, selectSymbolsOf } from '../known-state.ts';
import { readCoverageFile } from '../publish/day-tables.ts';
import type { ManifestWatcher } from './manifest-watcher.ts';

/** Which gaps to list: epoch milliseconds, null if not given; no symbols means all. */
interface GapsQuery {
  readonly from: number | null;
  readonly to: number | null;
  readonly symbols: readonly SymbolFacts[];
  /** Only symbols of these sources; absent or empty means all. */
  readonly sources?: readonly string[] | undefined;
  /** Whether to say why the past days of the window are not complete; not done for some symbols only. */
  readonly explainsDays?: boolean;
}

/** Gaps inside [from, to), epoch milliseconds. */
export interface GapList extends Window, Partial<OpenDayList> {
  readonly count: number;
  readonly gaps: readonly Gap[];
  /** Windows covered by inference only, and the number of symbols with such windows. */
  readonly provisional: Completeness['provisional'];
  /** Number of symbols that are not collected, of which nothing is expected since; absent if there are none. */
  readonly not_collected?: Pick<Completeness['counts'], 'excluded' | 'forgotten'>;
}

/**
 * Lists the gaps in a window. The default is the first to the last moment for which the archive has data or, in an
 * empty archive, the span that the first polls of its symbols have to cover.
 * @param readKnown reads the window from the first to the last moment with data, up to a time; default: from the state
 * @throws UsageError if `from` is not before `to`, or not in the past
 */
export function listGaps(
  archive: Archive,
  { from, to, symbols, sources = [], explainsDays = false }: GapsQuery,
  rules: CompletenessRules,
  nowMs: number,
  readKnown: (nowMs: number) => Window | null = (at) => readKnownWindow(archive.state.db, at),
): GapList {
  const { db } = archive.state;
  const all = selectSymbolsOf(symbols.length === 0 ? readAllSymbols(db) : symbols, sources);
  const isExplicit = from !== null && to !== null;
  const known = isExplicit ? null : (readKnown(nowMs) ?? computeExpectedSpan(all, rules, nowMs));
  // The future is not a gap.
  const window = { from: from ?? known?.from ?? 0, to: Math.min(nowMs, to ?? known?.to ?? 0) };
  if (isExplicit && window.from >= window.to) throw new UsageError('--from must be before --to, and in the past.');
  const judgesDays = explainsDays && symbols.length === 0;
  const { gaps, provisional, counts, days } = computeCompleteness(
    readCurrentState(archive, rules, nowMs, all, sources),
    {
      days: judgesDays ? listPastDays(window, nowMs) : [],
      window,
      isStartExplicit: from !== null,
      isEndOpen: to === null,
      isRequestedByName: symbols.length > 0,
    },
  );
  const { excluded, forgotten } = counts;
  return {
    ...window,
    count: gaps.length,
    gaps,
    provisional,
    ...((excluded ?? forgotten) !== undefined && {
      not_collected: { ...(excluded !== undefined && { excluded }), ...(forgotten !== undefined && { forgotten }) },
    }),
    ...(judgesDays && toOpenDayList(listOpenDaysOf({ days }, nowMs))),
  };
}

/** The past days that are neither complete nor empty, the newest first, with their reasons. */
export const listOpenDaysOf = ({ days }: Pick<Completeness, 'days'>, nowMs: number): OpenDay[] =>
  listOpenDays(
    [...days].map(([day, state]) => [formatDay(day), state] as const),
    nowMs,
  );

/** Maximum number of days to judge: the newest of a longer window. */
const judgedDaysMax = 3660;

/** UTC midnights of the days that overlap a window and have ended. */
function listPastDays({ from, to }: Window, nowMs: number): number[] {
  const end = Math.min(to, floorToDay(nowMs));
  const out: number[] = [];
  for (let day = Math.max(floorToDay(from), floorToDay(end) - judgedDaysMax * dayMs); day < end; day += dayMs)
    out.push(day);
  return out;
}

/**
 * `readKnownWindow` for a process that is asked for it often: it reads all coverage of the archive. Reads it again only
 * after a write to the state database.
 */
export function watchKnownWindow(db: Database, watcher: ManifestWatcher): (nowMs: number) => Window | null {
  let cached: { readonly version: number; readonly window: Window | null } | undefined;
  return (nowMs) => {
    const version = watcher.getVersion();
    if (cached?.version !== version) cached = { version, window: readKnownWindow(db, Number.POSITIVE_INFINITY) };
    const { window } = cached;
    return window === null ? null : { from: window.from, to: Math.min(nowMs, window.to) };
  };
}

/** The span of the lifetimes of the active symbols, up to now; null if there is none. */
function computeExpectedSpan(
  symbols: readonly SymbolFacts[],
  { namedSymbols, lifetimeRules }: CompletenessRules,
  nowMs: number,
): Window | null {
  const from = symbols
    .filter((facts) => isActive(facts, namedSymbols))
    .reduce(
      (earliest, facts) => Math.min(earliest, computeLifetime(facts, [], lifetimeRules).from),
      Number.POSITIVE_INFINITY,
    );
  return from < nowMs ? { from, to: nowMs } : null;
}

/** Counts gaps. `windows` includes `lost` and `accepted`. */
export function countGaps(gaps: readonly Gap[]): { windows: number; symbols: number; lost: number; accepted: number } {
  const count = (reason: Gap['reason']): number => gaps.filter((gap) => gap.reason === reason).length;
  const symbols = new Set(gaps.map((gap) => gap.symbol)).size;
  return { windows: gaps.length, symbols, lost: count('lost'), accepted: count('accepted') };
}

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
    : all
        .toSorted((a, b) => compareUtf8(a.symbol, b.symbol))
        .flatMap((facts): Gap[] => {
          const { symbol, opensAt, listed } = facts;
          const covered = union(bySymbol.get(symbol) ?? []);
          // Ticks and the time of the import say nothing about when the other data begin and end: what is unknown is a gap.
          const from = opensAt ?? Number.NEGATIVE_INFINITY;
          const to = listed ? computeLifetime(facts, covered, lifetimeRules).to : Number.POSITIVE_INFINITY;
          const alive = intersectTwo({ from, to }, window);
          if (isEmpty(alive)) return [];
          return subtract([alive], covered).map((gap) => ({ ...gap, symbol, reason: 'never asked' }));
        });
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
