import type { Clock } from '../../base/ports.ts';
import { pushTo } from '../../base/push-to.ts';
import { findSource } from '../../base/source-name.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import type { Archive } from '../archive.ts';
import { listFilesWithRows } from '../format/manifest.ts';
import { precedenceRanks } from '../format/precedence.ts';
import {
  describeLaw,
  findPriceLawOf,
  fitsLaw,
  isOutside,
  lawPricesMin,
  type PriceLaw,
  type PricePair,
} from '../format/price-law.ts';
import type { Conflict, PartColumns } from '../format/tick-columns.ts';
import { getMeta, setMeta, toSourceKey } from '../journal/database.ts';
import { readCoverageWithoutLost, recordOwed } from '../journal/gap-records.ts';
import {
  listJournaledSymbolDays,
  pricesOutsideKey,
  readJournalEnd,
  readSymbolDayTicks,
  rejectSymbolTicks,
} from '../journal/journal.ts';
import { groupByFile, readPublishedTicks } from './count-ticks.ts';
import type { ImportBuffer } from './import-buffer.ts';

/** Journaled ticks of one source that a publish has quarantined, because their prices are in another unit. */
export interface PriceBreak {
  /** Null: the only service. */
  readonly source: string | null;
  readonly law: PriceLaw;
  /** Number of quarantined ticks. */
  readonly ticks: number;
  /** Their symbols, sorted. */
  readonly symbols: readonly string[];
  /** Whether these are the rows of an import, none of which was taken. */
  readonly isImport: boolean;
}

/** The prices that a publish would merge are to be inspected first. */
export class SuspectPricesError extends Error {}

/** What a publish is asked about prices. */
export interface PriceCheckOptions {
  readonly runId: string;
  readonly clock: Clock;
  /** Input of an import, besides the journal. */
  readonly intake?: ImportBuffer | undefined;
  /** The sources whose prices are taken as they are; null: the only service. */
  readonly trustedSources?: ReadonlySet<string | null> | undefined;
  /** What earlier publishes of the run have quarantined. */
  readonly priceBreaks?: readonly PriceBreak[] | undefined;
}

/** Maximum number of conflicts of a symbol that are noted. */
const notedMax = 100;

/** Keeps prices in another unit out of one publish. */
export type PriceCheck = ReturnType<typeof startPriceCheck>;

export function startPriceCheck(
  archive: Archive,
  { runId, clock, intake, trustedSources = new Set(), priceBreaks = [] }: PriceCheckOptions,
) {
  const names = archive.state.identity.sources.map(({ name }) => name);
  const judged = new Set(trustedSources);
  let known = priceBreaks.filter(({ isImport }) => !isImport);
  const breaks: PriceBreak[] = [];
  let accepted = intake;
  const bySymbol = new Map<string, PricePair[]>();
  /** With the law that their conflicts show; null: these are the first prices outside of 0 to 1. */
  const suspects = new Map<string | null, { readonly law: PriceLaw | null; readonly symbols: readonly string[] }>();
  const add = (found: PriceBreak | null): boolean => found !== null && breaks.push(found) > 0;
  return {
    /** The input of an import; undefined if there is none, or it was refused. */
    get intake() {
      return accepted;
    },
    breaks,
    /** Begins an attempt: quarantines what the run has journaled since an earlier publish of it found a law broken. */
    begin() {
      bySymbol.clear();
      for (const { source, law } of known) add(quarantinePrices(archive, source, { law, runId }, clock.nowMs()));
      known = [];
    },
    note(conflicts: readonly Conflict[]) {
      for (const { symbol, kept, dropped } of conflicts)
        if ((bySymbol.get(symbol)?.length ?? 0) < notedMax) pushTo(bySymbol, symbol, [kept, dropped]);
    },
    /** @throws SuspectPricesError if the conflicts show a law, or a source has its first prices outside of 0 to 1 */
    requireUsual() {
      const bySource = Map.groupBy(bySymbol, ([symbol]) => findSource(symbol, names));
      for (const source of names.length === 0 ? [null] : names) {
        if (judged.has(source)) continue;
        const noted = bySource.get(source) ?? [];
        const law = findPriceLawOf(noted.map(([, pairs]) => pairs));
        if (law !== null || getMeta(archive.state.db, toSourceKey(pricesOutsideKey, source)) === 'journaled')
          suspects.set(source, { law, symbols: noted.map(([symbol]) => symbol) });
      }
      if (suspects.size > 0) throw new SuspectPricesError();
    },
    /** Inspects each such source once: the next attempt of the publish merges what is left. */
    quarantineSuspects() {
      for (const [source, { law, symbols }] of suspects) {
        judged.add(source);
        const isJournal = add(quarantinePrices(archive, source, null, clock.nowMs()));
        if (isJournal || law === null || accepted === undefined) continue;
        // Preferred rows replace those that are held.
        const isInverse = accepted.rank === precedenceRanks.preferred && law.kind === 'ratio';
        const value = isInverse ? 1 / law.value : law.value;
        add({ source, law: { ...law, value }, ticks: accepted.ticks.rows, symbols, isImport: true });
        accepted = undefined;
      }
      suspects.clear();
    },
  };
}

/** How the journaled prices of one run and symbol compare with those held at the same times. */
interface Evidence {
  readonly runId: string;
  readonly symbol: string;
  readonly conflicts: PricePair[];
  /** Equal prices. */
  agreeing: number;
  /** Prices outside of 0 to 1. */
  outside: number;
}

/** Prices that may be the same in another unit, or as the price of the other outcome. */
const isAmbiguous = (p: number): boolean => p === 0 || p === 0.5 || p === 50;

/**
 * Compares the journaled prices of a source with what was there before, and quarantines those of another unit, with those of
 * the same run that cannot be told apart: no price of theirs is held. Nothing that their responses covered stays covered.
 * Null if all prices are as usual. Requires the write lock.
 * @param known a law that the run has broken before, and the run
 */
function quarantinePrices(
  archive: Archive,
  source: string | null,
  known: { readonly law: PriceLaw; readonly runId: string } | null,
  nowMs: number,
): PriceBreak | null {
  const { db } = archive.state;
  const { evidence, isHeldInside } = compareJournaledPrices(archive, source);
  const law =
    findPriceLawOf(evidence.map(({ conflicts }) => conflicts)) ?? known?.law ?? findOutsideLaw(evidence, isHeldInside);
  const key = toSourceKey(pricesOutsideKey, source);
  if (law === null) {
    if (getMeta(db, key) !== undefined) setMeta(db, key, 'published');
    return null;
  }
  const countFitting = ({ conflicts, outside }: Evidence): number =>
    law.kind === 'outside' ? outside : conflicts.filter((pair) => fitsLaw(law, pair)).length;
  const isBroken = (one: Evidence): boolean => countFitting(one) > 0 && countFitting(one) >= one.agreeing;
  const runs = new Set(evidence.filter(isBroken).map(({ runId }) => runId));
  if (known !== null) runs.add(known.runId);
  const rejected = evidence
    .filter((one) => runs.has(one.runId) && (isBroken(one) || one.agreeing === 0))
    .sort((a, b) => compareUtf8(a.symbol, b.symbol));
  if (rejected.length === 0) return null;
  const reason = `its prices are ${describeLaw(law)}`;
  return db.transaction(() => {
    let ticks = 0;
    const failures = new Map<string, Parameters<typeof recordOwed>[1][number]['failures'][number][]>();
    for (const { runId, symbol } of rejected) {
      const done = rejectSymbolTicks(db, runId, symbol, reason);
      ticks += done.ticks;
      for (const window of done.windows) pushTo(failures, symbol, { ...window, reason, kind: 'failed' });
    }
    recordOwed(
      db,
      [...failures].map(([symbol, list]) => ({ symbol, covered: readCoverageWithoutLost(db, symbol), failures: list })),
      nowMs,
    );
    if (getMeta(db, key) === 'journaled') setMeta(db, key, '');
    return { source, law, ticks, symbols: [...new Set(rejected.map(({ symbol }) => symbol))], isImport: false };
  });
}

/** Whether prices that agree with none that is held are the first outside of 0 to 1. */
function findOutsideLaw(evidence: readonly Evidence[], isHeldInside: () => boolean): PriceLaw | null {
  const outside = evidence.reduce((sum, one) => sum + (one.agreeing > 0 ? 0 : one.outside), 0);
  return outside >= lawPricesMin && isHeldInside() ? { kind: 'outside', value: 0 } : null;
}

/** Reads one published file at a time. */
function compareJournaledPrices(archive: Archive, source: string | null) {
  const { db } = archive.state;
  const manifest = archive.readManifest();
  const end = readJournalEnd(db);
  const names = archive.state.identity.sources.map(({ name }) => name);
  const isOwn = (symbol: string): boolean => findSource(symbol, names) === source;
  const bySymbol = new Map<string, Evidence>();
  const held = { ticks: 0, outside: 0 };
  const countHeld = (part: PartColumns): void => {
    for (const [i, symbol] of part.symbols.entries()) {
      if (!isOwn(symbol)) continue;
      const prices = part.p.subarray(part.offsets[i]!, part.offsets[i + 1]!);
      held.ticks += prices.length;
      held.outside += prices.reduce((sum, p) => sum + Number(isOutside(p)), 0);
    }
  };
  for (const { day, file, symbols } of groupByFile(manifest, listJournaledSymbolDays(db))) {
    const old = readPublishedTicks(archive, file);
    countHeld(old);
    for (const { symbol } of symbols.filter((one) => isOwn(one.symbol))) {
      const known = indexHeldPrices(old, symbol);
      for (const { runId, t, p } of readSymbolDayTicks(db, symbol, day, end)) {
        const key = `${runId} ${symbol}`;
        const one = bySymbol.get(key) ?? { runId, symbol, conflicts: [], agreeing: 0, outside: 0 };
        bySymbol.set(key, one);
        for (const [i, offered] of p.entries()) {
          if (isOutside(offered)) one.outside++;
          const before = known.get(t[i]!);
          if (before === undefined) known.set(t[i]!, { p: offered, runId });
          else if (before.runId === runId) continue;
          else if (before.p !== offered) one.conflicts.push([before.p, offered]);
          else if (!isAmbiguous(offered)) one.agreeing++;
        }
      }
    }
  }
  const isHeldInside = (): boolean => {
    // Where no day of these ticks holds any, the last day decides.
    const files = listFilesWithRows(manifest, 'ticks');
    const last = files.reduce((max, { date }) => (date! > max ? date! : max), '');
    if (held.ticks === 0)
      for (const file of files) if (file.date === last) countHeld(readPublishedTicks(archive, file));
    return held.ticks > 0 && held.outside === 0;
  };
  return { evidence: [...bySymbol.values()], isHeldInside };
}

/** The published prices of a symbol by time. Prices of the journal, with their run, are added to them. */
function indexHeldPrices({ symbols, offsets, t, p }: PartColumns, symbol: string) {
  const held = new Map<number, { readonly p: number; readonly runId: string | null }>();
  const i = symbols.indexOf(symbol);
  if (i >= 0) for (let row = offsets[i]!; row < offsets[i + 1]!; row++) held.set(t[row]!, { p: p[row]!, runId: null });
  return held;
}
