/** Compares what an archive claims with the truth, and measures what it proved. Own arithmetic, on purpose. */
import { Archive, type Held, type NightResult } from './nights.ts';
import { type Habit, openService, positionOf, type Service, showAll } from './server.ts';
import { day, drawWorld, midnightOf, type World } from './world.ts';

/** A tick that a proven window lacks although it existed when the response of the window was generated. */
export interface FalseClaim {
  readonly seed: number;
  readonly habit: string;
  readonly symbol: string;
  readonly kind: string;
  readonly night: number;
  readonly tick: number;
  readonly evidence: string;
  readonly from: number;
  readonly to: number;
  readonly fetchedAt: number;
  /** Whether the tick was older than the settling time: the claim counts for a complete day. */
  readonly isSettled: boolean;
}

export interface Measured {
  readonly claims: readonly FalseClaim[];
  /** Share of the symbol-days before the cut that are proven, after each night. */
  readonly proven: readonly number[];
  /** Share of symbol-days that are older than three days and not proven, after the last night. */
  readonly provisional: number;
  readonly nights: readonly NightResult[];
  /** What a night planned and neither covered nor reported, and, if each response leads to the next, ticks that it left. */
  readonly forgotten: readonly string[];
  /** Ticks that the archive has after the last night, of the time for which the symbols were to be collected. */
  readonly ticks: number;
  /** False claims that stand after the last night. */
  readonly standing: number;
}

const settle = day;

/** Runs all nights of a world. @param onNight is called after each one */
export async function runWorld(
  world: World,
  habits: readonly Habit[],
  onNight: (archive: Archive, service: Service, night: number) => void = () => {},
): Promise<Measured> {
  const hand = { now: 0 };
  const service = openService(world, habits, hand);
  const archive = new Archive();
  const claims: FalseClaim[] = [];
  const known = new Set<string>();
  const proven: number[] = [];
  const nights: NightResult[] = [];
  const name = habits.map((habit) => habit.name).join(' + ');
  for (const [night, now] of world.nights.entries()) {
    hand.now = now;
    service.night = night;
    nights.push(await archive.runNight(world, service, hand));
    for (const held of archive.held.values())
      for (const claim of findFalse(held, service)) {
        const key = `${claim.symbol} ${claim.tick} ${claim.isSettled}`;
        if (known.has(key)) continue;
        known.add(key);
        claims.push({ seed: world.seed, habit: name, night, ...claim });
      }
    proven.push(countProven(archive, world.nights[0]!, midnightOf(now - settle)));
    onNight(archive, service, night);
  }
  const old = midnightOf(world.nights.at(-1)! - 3 * day);
  const provisional = 1 - countProven(archive, world.nights[0]!, old);
  const ticks = [...archive.held.values()].reduce((sum, { listed, facts, times }) => {
    const from = listed.isOpeningListed ? listed.opensAt : facts.firstSeen - 7 * day;
    return sum + times.filter((t) => t >= from).length;
  }, 0);
  const forgotten = nights.flatMap((night) => [...night.forgotten, ...(showAll(habits) ? night.lost : [])]);
  const standing = [...archive.held.values()].reduce((sum, held) => sum + findFalse(held, service).length, 0);
  return { claims, proven, provisional, nights, forgotten, ticks, standing };
}

type Found = Omit<FalseClaim, 'seed' | 'habit' | 'night'>;

export function findFalse({ listed, times, coverage }: Held, service: Service): Found[] {
  let next = 0;
  const missing = listed.times.filter((t) => {
    while (times[next]! < t) next++;
    return !(times[next] === t && service.isShown(t, listed)) && !service.isUnusable(t);
  });
  const out: Found[] = [];
  for (const { from, to, fetchedAt, evidence } of coverage) {
    if (evidence === 'inferred') continue;
    for (let i = positionOf(missing, from); i < missing.length && missing[i]! < to; i++) {
      const tick = missing[i]!;
      const isBeforeCut = tick < midnightOf(fetchedAt - settle);
      if (tick > fetchedAt || (service.appears(tick, listed) > fetchedAt && !isBeforeCut)) continue;
      const isSettled = tick + settle <= fetchedAt;
      out.push({ symbol: listed.name, kind: listed.kind, tick, evidence, from, to, fetchedAt, isSettled });
    }
  }
  return out;
}

/** The share of the days of symbols' lives that are proven, of which the first and the last one may be parts of days. */
function countProven(archive: Archive, firstNight: number, cut: number): number {
  let [days, proven] = [0, 0];
  for (const { listed, facts, coverage } of archive.held.values()) {
    const windows = coverage.filter(({ evidence }) => evidence !== 'inferred').sort((a, b) => a.from - b.from);
    const begin = Math.max(firstNight - 7 * day, listed.isOpeningListed ? listed.opensAt : facts.firstSeen - 7 * day);
    const end = Math.min(cut, listed.endsAt);
    for (let from = begin; from < end; ) {
      const to = Math.min(end, midnightOf(from) + day);
      days++;
      let at = from;
      for (const window of windows) if (window.from <= at) at = Math.max(at, window.to);
      if (at >= to) proven++;
      from = to;
    }
  }
  return days === 0 ? 1 : proven / days;
}

export const describeClaim = (c: FalseClaim): string => {
  const at = (t: number): string => new Date(t).toISOString().slice(5, 19).replace('T', ' ');
  return (
    `seed ${c.seed}, ${c.habit}: ${c.symbol} (${c.kind}), night ${c.night + 1}: ${c.evidence} ` +
    `[${at(c.from)}, ${at(c.to)}) of ${at(c.fetchedAt)} lacks ${at(c.tick)}${c.isSettled ? '' : ' (not settled)'}`
  );
};

/** Errors of a run whose server leaves nothing out, as text: false claims, what was forgotten, and ticks said to be left out. */
export const listErrors = ({ claims, forgotten, nights }: Measured): string[] => [
  ...claims.map(describeClaim),
  ...forgotten,
  ...nights.flatMap(({ omissions }) => omissions.map(({ symbol, t }) => `${symbol}: ${t} is said to be left out`)),
];

/** Draws and runs a world. */
export const runSeed = (seed: number, habits: readonly Habit[], size: Parameters<typeof drawWorld>[1]) =>
  runWorld(drawWorld(seed, size), habits);
