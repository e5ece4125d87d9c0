import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { takeWriteLock } from '../../src/archive/journal/lock.ts';
import { systemClock } from '../../src/base/system.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { dayMs, fixedNow, manifestOf, rowsOf, sandbox, ticksOf, totalTicks } from '../e2e/lake.ts';
import { computeQuotes, computeTrades, createSeriesKey } from '../sandbox/simulated-series.ts';
import { type Contents, findArchiveErrors, findTreeErrors, readContents, sha256Of } from './archive-faults.ts';
import { hookedJob, runHooked, scratch } from './hooked.ts';
import { type Base, bases, expectExit, type Flow, type Place } from './kill-flows.ts';
import type { CallKind } from './kill-hook.ts';

// What kills and races begin with: a service with a fixed clock, initial archives, and the results of undisturbed
// runs.

export interface RaceBase {
  readonly box: Sandbox;
  readonly bases: Readonly<Record<Base, string>>;
  readonly input: string;
  readonly folder: string;
  /** The result of flows that run one after another, undisturbed. */
  calm(of: readonly Flow[]): Promise<UndisturbedResult>;
}

interface UndisturbedResult {
  readonly outcome: Outcome;
  /** Number of calls of each kind in a flow. */
  readonly counts: ReadonlyMap<Flow, Readonly<Record<CallKind, number>>>;
}

/** The part of the result that does not depend on kills. */
interface Outcome extends Contents {
  /**
   * Files written outside of the archive; of a snapshot only whether it exists, as its generation may be an earlier
   * one.
   */
  readonly names: readonly string[];
  /** sha256 of the export; null without export. */
  readonly exported: string | null;
}

export const outcomeOf = ({ archive, out }: Place): Outcome => {
  const exported = join(out, 'ticks.parquet');
  return {
    ...readContents(archive),
    names: readdirSync(out).sort(),
    exported: existsSync(exported) ? sha256Of(exported) : null,
  };
};

/** Errors of a place after the last run. */
export function findErrors(
  { box, bases }: Pick<RaceBase, 'box' | 'bases'>,
  { archive, out }: Place,
  base: Base,
): string[] {
  const snapshot = join(out, 'snapshot');
  // Ticks that a repair fetches again count as accepted again.
  const forgotten = base === 'damaged' ? null : base === 'without its state' ? totalTicks(bases[base]) : 0;
  return [...findArchiveErrors(archive, box, forgotten), ...(existsSync(snapshot) ? findTreeErrors(snapshot) : [])];
}

export const placeIn = (folder: string, input: string): Place => ({
  archive: join(folder, 'archive'),
  out: join(folder, 'out'),
  input,
});

/** Publishes what runs that brought nothing new have left in the journal: repeated market lists, and coverage of today. */
export async function publishRest({ box }: Pick<RaceBase, 'box'>, { archive, out }: Place): Promise<void> {
  const report = join(out, '..', 'publish.json');
  expectExit(await runHooked(hookedJob('publish', archive), box.url, report), [0]);
  rmSync(report, { force: true });
}

/** Creates a place with an archive of this base. */
export function createPlace({ bases }: Pick<RaceBase, 'bases'>, place: Place, base: Base): void {
  mkdirSync(place.out, { recursive: true });
  if (existsSync(bases[base])) cpSync(bases[base], place.archive, { recursive: true });
}

export async function createRaceBase(): Promise<RaceBase> {
  const folder = scratch();
  // Its history begins before any market opened: a horizon would be found only by runs that begin with the first requests.
  const box = await sandbox({ seed: 3, nowMs: fixedNow, markets: 4, ticksPerDay: 60, epochMs: fixedNow - 14 * dayMs });
  const input = join(folder, 'input');
  const prepared = { box, bases: await makeBases(join(folder, 'bases'), box) };
  // Of known symbols: a symbol that only an import brings is backfilled after the import.
  writeInput(input, box, [...ticksOf(prepared.bases['a day']).keys()].slice(0, 4));
  const known = new Map<string, Promise<UndisturbedResult>>();
  async function runCalm(of: readonly Flow[], name: string): Promise<UndisturbedResult> {
    const place = placeIn(join(folder, name), input);
    createPlace(prepared, place, of[0]!.base);
    const counts = new Map<Flow, Readonly<Record<CallKind, number>>>();
    for (const flow of of) {
      const result = await runHooked(flow.args(place), box.url, join(folder, `${name}.json`));
      expectExit(result, [0]);
      counts.set(flow, result.counts);
    }
    await publishRest(prepared, place);
    const faults = findErrors(prepared, place, of[0]!.base);
    if (faults.length > 0) throw new Error(`undisturbed, ${name}: ${faults.join('\n')}`);
    return { outcome: outcomeOf(place), counts };
  }
  return {
    ...prepared,
    input,
    folder,
    calm(of) {
      const name = of.map((flow) => flow.name).join(', ');
      const undisturbed = known.get(name) ?? runCalm(of, name);
      known.set(name, undisturbed);
      return undisturbed;
    },
  };
}

/** Builds every base once, in `folder`, by undisturbed runs. */
async function makeBases(folder: string, box: Sandbox): Promise<Record<Base, string>> {
  const at = (base: Base): string => join(folder, base, 'archive');
  const run = async (base: Base, codes: number[], name: string, ...flags: string[]): Promise<void> => {
    mkdirSync(join(folder, base), { recursive: true });
    expectExit(await runHooked(hookedJob(name, at(base), ...flags), box.url, join(folder, 'report.json')), codes);
  };
  await run('a day', [0], 'nightly', '--date', '2025-06-13');
  await run('without candles', [0], 'nightly', '--date', '2025-06-13', '--set', 'archive.candles=[]');
  cpSync(at('a day'), at('journaled'), { recursive: true });
  const lock = await takeWriteLock(join(at('journaled'), '.oddslake', 'lock.sqlite'), 0, systemClock);
  await run('journaled', [5], 'nightly', '--date', '2025-06-14', '--wait', '0');
  await run('journaled', [5], 'orderbook', '--wait', '0');
  lock.release();
  cpSync(at('a day'), at('without its state'), { recursive: true });
  rmSync(join(at('without its state'), '.oddslake'), { recursive: true });
  cpSync(at('a day'), at('damaged'), { recursive: true });
  damage(at('damaged'));
  return Object.fromEntries(bases.map((base) => [base, at(base)])) as Record<Base, string>;
}

/** A flipped bit in one tick part file, another one cut in half, and missing candles. */
function damage(archive: string): void {
  const [first, second] = manifestOf(archive).datasets.ticks.files.map(({ path }) => join(archive, path));
  const bytes = readFileSync(first!);
  bytes[Math.floor(bytes.length / 3)]! ^= 1;
  writeFileSync(first!, bytes);
  truncateSync(second!, Math.floor(readFileSync(second!).length / 2));
  rmSync(join(archive, manifestOf(archive).datasets.candles_1h.files[0]!.path));
}

/**
 * Writes the input of imports: rows with prices that lose against the service's, a page that covers a window that nothing
 * else fetches, quotes of which a later file corrects some, and trades, some of them without identifiers.
 */
function writeInput(folder: string, box: Sandbox, symbols: readonly string[]): void {
  mkdirSync(folder, { recursive: true });
  const put = (name: string, text: string, writtenAt = fixedNow): void => {
    writeFileSync(join(folder, name), text);
    utimesSync(join(folder, name), writtenAt / 1000, writtenAt / 1000);
  };
  const day = (daysBack: number) => {
    const from = Date.UTC(2025, 5, 15 - daysBack);
    return { from, to: from + dayMs };
  };
  const lines = symbols.flatMap((symbol) =>
    rowsOf(box.readTruth(symbol, day(2))).map(
      ({ t, p }, i) => `${symbol},${t},${i % 7 === 0 ? p / (2 + (i % 3)) : p}\n`,
    ),
  );
  put('rows.csv', `symbol,t,p\n${lines.join('')}`);
  symbols.forEach((symbol, i) => {
    const ticks = rowsOf(box.readTruth(symbol, day(4)));
    const page = { symbol, ticks, count: ticks.length, ...day(4), generated_at: fixedNow };
    put(`page-${i}.json`, JSON.stringify(page));
  });
  const series = symbols.map((symbol, i) => {
    const ticks = box.readTruth(symbol, day(2));
    const key = createSeriesKey(1, symbol);
    const quotes = computeQuotes(key, ticks).map(({ t, bid, ask, bidSize }) => [symbol, t, bid, ask, bidSize]);
    const trades = computeTrades(key, ticks).map(({ t, tradeId, price, size, aggressor }) => {
      const id = i % 2 === 0 ? tradeId : null;
      return [symbol, t, id, price, i % 2 === 0 ? size : 1, aggressor];
    });
    return { quotes, trades };
  });
  const toCsv = (header: string, rows: readonly (readonly unknown[])[]): string =>
    `${[header, ...rows.map((row) => row.map((cell) => cell ?? '').join())].join('\n')}\n`;
  const quotes = series.flatMap((one) => one.quotes);
  const corrected = quotes.filter((_, i) => i % 5 === 0).map((row) => [...row.slice(0, 4), 7]);
  put('quotes.csv', toCsv('symbol,t,bid,ask,bid_size', quotes), fixedNow - 1000);
  put('quotes-corrected.csv', toCsv('symbol,t,bid,ask,bid_size', corrected));
  const trades = series.flatMap((one) => one.trades);
  put('trades.csv', toCsv('symbol,t,trade_id,price,size,aggressor', trades));
}
