import { compareUtf8 } from '../../base/symbol-name.ts';
import { dayMs } from '../../base/window.ts';
import type { CoveredWindow } from './coverage.ts';
import { hasSameMarketState, type MarketRow, type SymbolFacts, toMarketKey } from './market.ts';
import { overlayPrecedence, type PrecedenceWindow, precedenceRanks } from './precedence.ts';
import type { SeriesColumns, SeriesConflict } from './series.ts';
import { readText } from './text-columns.ts';

// What two archives that unite have of the same thing. Each result is the same whichever of them is united with the other, and
// uniting one of them again changes nothing.

/**
 * The precedence of the published rows of a symbol and day, as its published coverage states it: rows that are not covered have
 * that of an import at midnight. Sorted and disjoint; every moment of the day is in a window.
 */
export const toStandIns = (symbol: string, day: number, coverage: readonly CoveredWindow[]): PrecedenceWindow[] =>
  overlayPrecedence(
    [{ symbol, from: day, to: day + dayMs, rank: precedenceRanks.import, observedAt: day }],
    coverage.map(({ from, to, origin, fetchedAt: observedAt }) => {
      const rank = origin === 'import' ? precedenceRanks.import : precedenceRanks.poll;
      return { symbol, from, to, rank, observedAt };
    }),
  );

/** Published rows of some symbols and one day, and the rows that were dropped for them. */
interface ContestedRows {
  readonly rows: readonly SeriesColumns[];
  readonly conflicts: readonly SeriesConflict[];
}

/** Wins over every other row, or over none. */
const decidedRanks = { kept: Number.MAX_SAFE_INTEGER, lost: -1 };

/**
 * Decides between two rows of one key by the conflicts of their archives: an archive that has dropped the other's row has
 * compared them, with more knowledge than published coverage states; the last to do so decides. Returns windows of one ms, in
 * which `own` has all precedence or none, by symbol. Sorted and disjoint.
 */
export function decideRows(own: ContestedRows, other: ContestedRows): Map<string, PrecedenceWindow[]> {
  const keys = new Set(
    [...own.conflicts, ...other.conflicts].map((one) => toRowKey(one.symbol, one.t, one.droppedTexts[0])),
  );
  const [ownRows, otherRows] = [own, other].map((side) => indexRows(side.rows, keys)) as [RowIndex, RowIndex];
  const [ownDrops, otherDrops] = [own, other].map(({ conflicts }) => indexDrops(conflicts)) as [DropIndex, DropIndex];
  const out = new Map<string, Map<number, PrecedenceWindow>>();
  for (const [key, { symbol, t, content }] of ownRows) {
    const against = otherRows.get(key);
    if (against === undefined || against.content === content) continue;
    const dropsOther = ownDrops.get(`${key} ${against.content}`) ?? Number.NEGATIVE_INFINITY;
    const dropsOwn = otherDrops.get(`${key} ${content}`) ?? Number.NEGATIVE_INFINITY;
    if (Math.max(dropsOther, dropsOwn) === Number.NEGATIVE_INFINITY) continue;
    const isKept = dropsOther === dropsOwn ? content > against.content : dropsOther > dropsOwn;
    const ofSymbol = out.get(symbol) ?? new Map<number, PrecedenceWindow>();
    out.set(symbol, ofSymbol);
    ofSymbol.set(t, {
      symbol,
      from: t,
      to: t + 1,
      rank: isKept ? decidedRanks.kept : decidedRanks.lost,
      observedAt: t,
    });
  }
  return new Map([...out].map(([symbol, windows]) => [symbol, [...windows.values()].sort((a, b) => a.from - b.from)]));
}

type RowIndex = ReadonlyMap<string, { readonly symbol: string; readonly t: number; readonly content: string }>;
/** When a row was dropped last, by its key and content. */
type DropIndex = ReadonlyMap<string, number>;

/** Rows that have an identifier have it as their first text. */
const toRowKey = (symbol: string, t: number, id: string | null | undefined): string =>
  JSON.stringify([symbol, id ?? t]);

function indexRows(columns: readonly SeriesColumns[], keys: ReadonlySet<string>): RowIndex {
  const out = new Map<string, { symbol: string; t: number; content: string }>();
  for (const { symbols, offsets, t, values, texts } of columns)
    symbols.forEach((symbol, i) => {
      for (let row = offsets[i]!; row < offsets[i + 1]!; row++) {
        const cells = texts.map((column) => readText(column, row));
        const key = toRowKey(symbol, t[row]!, cells[0]);
        const content = (): string =>
          toRowContent(
            t[row]!,
            values.map((column) => column[row]!),
            cells,
          );
        if (keys.has(key)) out.set(key, { symbol, t: t[row]!, content: content() });
      }
    });
  return out;
}

function indexDrops(conflicts: readonly SeriesConflict[]): DropIndex {
  const out = new Map<string, number>();
  for (const conflict of conflicts) {
    const key = toDropKey(conflict);
    out.set(key, Math.max(conflict.seenAt, out.get(key) ?? conflict.seenAt));
  }
  return out;
}

const toDropKey = ({ symbol, t, dropped, droppedTexts }: SeriesConflict): string =>
  `${toRowKey(symbol, t, droppedTexts[0])} ${toRowContent(t, dropped, droppedTexts)}`;

const toRowContent = (t: number, numbers: readonly number[], texts: readonly (string | null)[]): string =>
  JSON.stringify([t, ...numbers, ...texts]);

/**
 * Unites the market rows of a day. Of the polls that showed a row, only the first and the last are known, and each of them
 * shows it again. Of two states that one market has at the same time, one is kept.
 */
export function uniteMarkets(rows: readonly MarketRow[]): MarketRow[] {
  const polls = rows.flatMap((row) =>
    [...new Set([row.firstSeen, row.lastSeen])].map((at) => ({ ...row, firstSeen: at, lastSeen: at })),
  );
  return [...Map.groupBy(polls, toMarketKey).values()].flatMap((ofMarket) => {
    const byTime = new Map(ofMarket.sort(compareContents).map((row) => [row.lastSeen, row]));
    const out: MarketRow[] = [];
    for (const next of [...byTime.values()].sort((a, b) => a.lastSeen - b.lastSeen)) {
      const last = out.at(-1);
      if (last !== undefined && hasSameMarketState(last, next))
        out[out.length - 1] = { ...next, firstSeen: last.firstSeen };
      else out.push(next);
    }
    return out;
  });
}

const compareContents = (a: object, b: object): number => compareUtf8(toContent(a), toContent(b));

/** The fields as text, whatever their order. */
export const toContent = (facts: object): string =>
  JSON.stringify(Object.entries(facts).sort(([a], [b]) => (a < b ? -1 : 1)));

const symbolFactNames = [
  ...(['canonicalId', 'source', 'question', 'category', 'isActive', 'opensAt', 'closesAt', 'resolvedAt'] as const),
  ...(['outcome', 'event', 'exclusive', 'strikeLow', 'strikeHigh', 'expectedEnd', 'rulesSha256'] as const),
  ...(['feeSchedule', 'tickSize'] as const),
] satisfies (keyof SymbolFacts)[];

/** Unites the facts of a symbol: those seen last, with older ones where they lack any. What only `own` can know stays. */
export function uniteSymbol(own: SymbolFacts, other: SymbolFacts): SymbolFacts {
  const [older, newer] = own.lastSeen < other.lastSeen ? [own, other] : [other, own];
  const isOneTime = older.lastSeen === newer.lastSeen;
  const pick = (name: (typeof symbolFactNames)[number]) =>
    isOneTime ? pickGreater(older[name], newer[name]) : (newer[name] ?? older[name]);
  const facts = Object.fromEntries(symbolFactNames.map((name) => [name, pick(name)])) as Pick<
    SymbolFacts,
    (typeof symbolFactNames)[number]
  >;
  const isReopened = !isOneTime && newer.isActive === true && newer.resolvedAt === null && newer.outcome === null;
  const ofOutcome = [older, newer].filter(({ outcome }) => outcome === facts.outcome);
  const lastActive = combine(Math.max, own.lastActive, other.lastActive);
  const since = [own, other].map(({ inactiveSince: at }) => (at !== null && at >= (lastActive ?? at) ? at : null));
  return {
    ...own,
    ...facts,
    outcomeSource: ofOutcome.reduce<SymbolFacts['outcomeSource']>(
      (source, one) => pickGreater(source, one.outcomeSource),
      null,
    ),
    ...(isReopened && { resolvedAt: null, outcome: null, outcomeSource: null }),
    firstSeen: Math.min(own.firstSeen, other.firstSeen),
    lastSeen: newer.lastSeen,
    lastActive,
    inactiveSince: facts.isActive === false ? combine(Math.min, since[0]!, since[1]!) : null,
    // Published rows do not tell listed markets from imported ones.
    listed: own.canonicalId === null ? other.listed : own.listed,
    polledFrom: combine(Math.min, own.polledFrom, other.polledFrom),
    servedFrom: uniteServedFrom(own, other),
  };
}

/** What an archive owes, it owes after the union: one that polls the symbol and knows no start has not reached any. */
const uniteServedFrom = (own: SymbolFacts, other: SymbolFacts): number | null =>
  [own, other].some((one) => one.servedFrom === null && one.polledFrom !== null)
    ? null
    : combine(Math.min, own.servedFrom, other.servedFrom);

const pickGreater = <T extends string | number | boolean | null>(a: T, b: T): T =>
  a === null || (b !== null && b > a) ? b : a;

const combine = (pick: (a: number, b: number) => number, a: number | null, b: number | null): number | null =>
  a === null ? b : b === null ? a : pick(a, b);
