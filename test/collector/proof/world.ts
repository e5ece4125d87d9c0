/** Draws the symbols of two sources and all their ticks from a seed: the truth that a server serves. */

export const hour = 3_600_000;
export const day = 24 * hour;
export const midnightOf = (t: number): number => t - (t % day);

/** Random numbers from a seed (mulberry32). */
export interface Dice {
  /** 0 to 1, 1 excluded. */
  share(): number;
  /** From `low` to `high`, `high` excluded. */
  between(low: number, high: number): number;
  pick<T>(values: readonly T[]): T;
}

export function createDice(seed: number): Dice {
  let state = Math.imul(seed, 0x9e3779b1) >>> 0;
  const share = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    share,
    between: (low, high) => low + share() * (high - low),
    pick: (values) => values[Math.floor(share() * values.length)]!,
  };
}

/** A number from 0 to 1 that depends on the arguments only. */
export function hash(a: number, b: number): number {
  let x = Math.imul(((a % 2 ** 32) | 0) ^ Math.imul(b + 1, 0x85ebca6b), 0xc2b2ae35);
  x = Math.imul(x ^ (x >>> 15), 0x27d4eb2f);
  return ((x ^ (x >>> 13)) >>> 0) / 2 ** 32;
}

export type Kind = 'busy' | 'medium' | 'sparse' | 'quiet' | 'never' | 'opening' | 'ending' | 'brief';

/** A symbol and all ticks that it ever has, ascending and distinct, epoch ms. */
export interface Listed {
  readonly name: string;
  readonly nth: number;
  readonly source: 'A' | 'B';
  readonly kind: Kind;
  readonly opensAt: number;
  /** Whether the market lists state the opening. */
  readonly isOpeningListed: boolean;
  readonly endsAt: number;
  readonly times: Float64Array;
}

export interface World {
  readonly seed: number;
  readonly symbols: readonly Listed[];
  /** When the nightly jobs begin, epoch ms. */
  readonly nights: readonly number[];
}

const firstNight = Date.UTC(2026, 5, 20, 3);
/** Ticks begin this long before the first night. */
const history = 36 * day;

/** @param isQuiet whether most symbols tick once in weeks */
export function drawWorld(seed: number, { symbols = 40, nights = 6, isQuiet = false } = {}): World {
  const dice = createDice(seed);
  // Some poll several times a day, and some run on every third day only.
  const every = seed % 4 === 0 ? 7 * hour : seed % 8 === 7 ? 3 * day : day;
  const starts = Array.from({ length: nights }, (_, i) => firstNight + i * every);
  // In every second world most markets live for hours or days, as they do at venues.
  const lasting = seed % 2 === 0 ? 0.4 : 1;
  return {
    seed,
    nights: starts,
    symbols: Array.from({ length: symbols }, (_, nth) =>
      drawSymbol(dice, nth, isQuiet && nth >= 10 ? quietShare : (nth + 0.5) / symbols / lasting, starts),
    ),
  };
}

/** Shares of all symbols, added up. */
const kinds: readonly (readonly [number, Kind])[] = [
  [0.12, 'busy'],
  [0.36, 'medium'],
  [0.62, 'sparse'],
  [0.78, 'quiet'],
  [0.86, 'never'],
  [0.93, 'opening'],
  [1, 'ending'],
  [Number.POSITIVE_INFINITY, 'brief'],
];

const quietShare = 0.7;

function drawSymbol(dice: Dice, nth: number, share: number, nights: readonly number[]): Listed {
  const [kind] = kinds.filter(([limit]) => share < limit).map(([, name]) => name) as [Kind];
  const [begin, end] = [nights[0]! - history, nights.at(-1)! + day];
  const drawn = (): number => dice.between(nights[0]! - 6 * day, nights.at(-1)!);
  const opensAt = kind === 'opening' || kind === 'brief' ? drawn() : begin - 30 * day;
  const life = kind === 'brief' ? dice.between(0.2, 6) * day : Number.POSITIVE_INFINITY;
  const endsAt = kind === 'ending' ? drawn() : opensAt + life;
  const span = { from: Math.max(begin, opensAt), to: Math.max(begin, opensAt, Math.min(end, endsAt)) };
  const isByDay = dice.share() < 0.3;
  const times = drawTimes(dice, kind, span).filter((t) => !isByDay || (t % day) / hour > 9);
  const unique = [...new Set(times.map(Math.floor))].sort((a, b) => a - b);
  return {
    name: `S${nth}`,
    nth,
    source: nth % 2 === 0 ? 'A' : 'B',
    kind,
    opensAt: Math.floor(opensAt),
    isOpeningListed: dice.share() < 0.5,
    endsAt: Math.floor(endsAt),
    times: Float64Array.from(unique),
  };
}

function drawTimes(dice: Dice, kind: Kind, { from, to }: { from: number; to: number }): number[] {
  if (kind === 'never') return [];
  const perDay = {
    busy: dice.between(90, 200),
    medium: dice.between(12, 40),
    sparse: dice.between(0.7, 5),
    opening: dice.between(1, 50),
    ending: dice.between(1, 50),
    brief: dice.between(2, 150),
    quiet: 1 / dice.between(6, 25),
  }[kind];
  const wait = (): number => (-Math.log(1 - dice.share()) * day) / perDay;
  const out: number[] = [];
  for (let t = from + wait(); t < to; t += wait()) {
    out.push(t);
    const burst = kind === 'quiet' || dice.share() < 0.05 ? Math.floor(dice.between(0, 5)) : 0;
    for (let i = 0; i < burst; i++) out.push(Math.min(to - 1, t + dice.between(1, hour)));
  }
  return out;
}
