import { compareUtf8 } from '../../base/symbol-name.ts';
import { isInRange, type SymbolRange } from '../../base/symbol-range.ts';
import { dayMs, floorToDay, intersect, overlaps, subtract, type Window } from '../../base/window.ts';
import { type CoveredWindow, isProven } from './coverage.ts';

/** A window whose tick coverage was withdrawn, and when, epoch ms. */
export interface DatedWindow extends Window {
  readonly at: number;
}

/**
 * A withdrawal as the manifest lists it, within one UTC day: what another archive fetched of this window at or before `at` proves
 * nothing. `symbol`: null if it concerns all symbols.
 */
export interface PublishedWithdrawal extends DatedWindow {
  readonly symbol: string | null;
}

/** The most withdrawals that a manifest lists by symbol. */
const listedMax = 5000;

/**
 * Overlays withdrawals so that each moment of a symbol has one, the last; sorted. They stay listed when their windows are proven
 * again, because another archive may still have older proof. Of a long list those are dropped first, and then the earliest ones
 * become one for each day, of all symbols: a union may then reject proof that nothing contradicts, and never takes what was
 * withdrawn.
 * @param coverage by symbol
 */
export function overlayWithdrawals(
  withdrawals: readonly PublishedWithdrawal[],
  coverage: ReadonlyMap<string, readonly CoveredWindow[]> = new Map(),
  countMax = listedMax,
): PublishedWithdrawal[] {
  const overlaid = [...Map.groupBy(withdrawals, ({ symbol }) => symbol).values()].flatMap(overlayDated);
  const all = overlaid.filter(({ symbol }) => symbol !== null);
  const listed =
    all.length <= countMax ? all : all.flatMap((one) => dropReproven([one], coverage.get(one.symbol!) ?? []));
  const latest = listed.sort((a, b) => b.at - a.at || comparePlaces(a, b));
  const others = overlaid.filter(({ symbol }) => symbol === null);
  const wholeDays = latest.slice(countMax).map(({ from, at }) => {
    const day = floorToDay(from);
    return { symbol: null, from: day, to: day + dayMs, at };
  });
  return [...overlayDated([...others, ...wholeDays]), ...latest.slice(0, countMax)].sort(comparePlaces);
}

const comparePlaces = (a: PublishedWithdrawal, b: PublishedWithdrawal): number =>
  compareUtf8(a.symbol ?? '', b.symbol ?? '') || a.from - b.from;

/** Overlays windows so that each moment has the last withdrawal. Windows of one day that adjoin and have one time are joined. */
function overlayDated<D extends DatedWindow>(windows: readonly D[]): D[] {
  const rest: D[] = [];
  for (const next of windows.toSorted((a, b) => b.at - a.at))
    for (const window of subtract([next], rest)) rest.push({ ...next, ...window });
  const out: D[] = [];
  for (const next of rest.sort((a, b) => a.from - b.from)) {
    const last = out.at(-1);
    const isJoined = last?.to === next.from && last.at === next.at && floorToDay(last.from) === floorToDay(next.from);
    if (isJoined) out[out.length - 1] = { ...last, to: next.to };
    else out.push(next);
  }
  return out;
}

/**
 * The withdrawals of several symbols as a list, without those dated before their windows: these take back claims of their own run,
 * and no response of that time has a claim there.
 */
export const flattenWithdrawals = (bySymbol: ReadonlyMap<string, readonly DatedWindow[]>): PublishedWithdrawal[] =>
  [...bySymbol].flatMap(([symbol, windows]) =>
    windows.filter(({ from, at }) => at > from).map(({ from, to, at }) => ({ symbol, from, to, at })),
  );

/** The listed withdrawals of the symbols of a part of a day. */
export const listPartWithdrawals = (
  listed: readonly PublishedWithdrawal[] = [],
  part: SymbolRange & { readonly day: number },
): PublishedWithdrawal[] =>
  listed.filter(({ symbol, from }) => floorToDay(from) === part.day && symbol !== null && isInRange(part, symbol));

/** Removes the withdrawals of one symbol that later proof has replaced. */
const dropReproven = <D extends DatedWindow>(withdrawn: readonly D[], coverage: readonly CoveredWindow[]): D[] =>
  withdrawn.flatMap((one) => {
    const later = coverage.filter((window) => isProven(window) && window.fetchedAt >= one.at);
    return subtract([one], later).map((window) => ({ ...one, ...window }));
  });

/**
 * Removes what saved responses claim that were generated before a withdrawal of their symbol, or of all symbols.
 * @param bySymbol with those of all symbols under null
 */
export const removeOlderClaims = <C extends Omit<CoveredWindow, 'origin'>>(
  claims: readonly C[],
  symbol: string,
  bySymbol: ReadonlyMap<string | null, readonly DatedWindow[]>,
): C[] =>
  claims.flatMap((claim) => {
    const later = [symbol, null].flatMap((key) => bySymbol.get(key) ?? []).filter(({ at }) => claim.fetchedAt < at);
    return later.length === 0 ? [claim] : subtract([claim], later).map((rest) => ({ ...claim, ...rest }));
  });

/**
 * The parts of coverage that another archive withdraws: those that were fetched no later, unless this archive lists the same
 * withdrawal or a later one. What it has of such a window, it has in spite of it.
 * @param known those of this archive and the symbol
 */
export const findWithdrawn = (
  coverage: readonly CoveredWindow[],
  withdrawn: readonly DatedWindow[],
  known: readonly DatedWindow[],
): Window[] =>
  withdrawn.flatMap((one) => {
    const older = coverage.filter((window) => window.fetchedAt <= one.at && overlaps(window, one));
    if (older.length === 0) return [];
    const news = subtract(
      [one],
      known.filter(({ at }) => at >= one.at),
    );
    return intersect(older, news);
  });
