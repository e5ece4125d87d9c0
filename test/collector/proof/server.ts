/** A server of ticks with habits. Each habit is a switch of its own; any may be combined. */
import { UpstreamError } from '../../../src/base/errors.ts';
import { intersect, isWithin, type Window } from '../../../src/base/window.ts';
import type { Upstream } from '../../../src/client/upstream.ts';
import { createDice, type Dice, day, hash, hour, type Listed, midnightOf, type World } from './world.ts';

/** The ends of what is served, both included, epoch ms. */
interface Span {
  readonly from: number;
  readonly to: number;
}

/** One request, as a habit sees it. */
export interface Asked extends Span {
  readonly listed: Listed;
  /** The night's number, from 0. */
  readonly night: number;
  readonly now: number;
  /** The last tick of the symbol that an answer of an earlier night showed, epoch ms; -Infinity: none. */
  readonly knownTo: number;
  readonly dice: Dice;
}

export interface Habit {
  readonly name: string;
  /** Whether the assumptions of PROOF.md hold for it: no claim may be false. */
  readonly isPromised: boolean;
  /** The end from which it reads until a budget is used up (A3): of data, or of rows. `either`: now from one, now from the other. */
  readonly budget?: { readonly side: Side | 'either'; readonly isOfRows: boolean };
  /** The end of the request to which it is bound (A2). */
  readonly bound?: Side;
  /** Whether it began in a later night, whose pages nobody expects to be cut: they are fetched whole in the next one. */
  readonly isLater?: boolean;
  /** Whether it stores the last rows of each symbol. */
  readonly isRowStore?: boolean;
  /** The request is refused with a status, or fails. */
  refuses?(asked: Asked): boolean;
  fails?(asked: Asked): boolean;
  /** The answer is empty whatever there is. */
  isSilent?(asked: Asked): boolean;
  /** The span that is read, before any habit narrows it. */
  widens?(asked: Asked): Span;
  /** The span that is served of the one that was asked for. */
  narrows?(asked: Asked): Span;
  /** Whether a tick is there at the time of the request. */
  hasTick?(t: number, asked: Asked): boolean;
  /** When a tick appears for the first time. Default: at its own time. */
  appears?(t: number, listed: Listed): number;
  /** The number of rows at a tick's millisecond, each with a price of its own. Default: 1. */
  rowsAt?(t: number): number;
  /** The ticks that are kept of all that are in the span. Each further row of a millisecond is a fraction later. */
  cuts?(times: Float64Array, asked: Asked): Float64Array;
  /** Whether the element of a tick is no tick, in every response. */
  isUnusable?(t: number): boolean;
  /** Puts the elements of a response into another order. */
  orders?(times: Float64Array, dice: Dice): void;
  /** The ends that a response states in place of the drawn ones. */
  states?(times: Float64Array, asked: Asked & { readonly isCut: boolean }): Ends;
  /** Windows in which it has nothing, and says so. */
  readonly gaps?: readonly Window[];
  /** When it says that a response was generated. */
  dates?(now: number): number | null;
}

interface Ends {
  readonly from: number | null;
  readonly to: number | null;
}

export interface Service {
  requests: number;
  night: number;
  ticks: Upstream['ticks'];
  /** When a tick appears, epoch ms. */
  appears(t: number, listed: Listed): number;
  /** Whether each row of a tick was in some response; true where each tick has one. */
  isShown(t: number, listed: Listed): boolean;
  isUnusable(t: number): boolean;
}

/** A clock that the simulation moves, epoch ms. */
export interface Hand {
  now: number;
}

export function openService(world: World, habits: readonly Habit[], hand: Hand): Service {
  const dice = createDice(world.seed + 7919);
  const byName = new Map(world.symbols.map((listed) => [listed.name, listed]));
  const gaps = habits.flatMap((habit) => habit.gaps ?? []);
  const isEchoing = dice.share() < 0.5;
  const isDated = dice.share() < 0.7;
  const [includesFrom, includesTo] = [dice.share() < 0.7, dice.share() < 0.4];
  const appears = (t: number, listed: Listed): number =>
    habits.reduce((latest, habit) => Math.max(latest, habit.appears?.(t, listed) ?? t), t);
  const echo = (_: Float64Array, { from, to }: Span): Ends => (isEchoing ? { from, to } : { from: null, to: null });
  const states = habits.findLast((habit) => habit.states !== undefined)?.states ?? echo;
  const dates =
    habits.findLast((habit) => habit.dates !== undefined)?.dates ?? ((now: number) => (isDated ? now : null));
  const rowsAt = (t: number): number => habits.reduce((rows, habit) => Math.max(rows, habit.rowsAt?.(t) ?? 1), 1);
  const spoilers = habits.filter(({ isUnusable }) => isUnusable !== undefined);
  const isUnusable = (t: number): boolean => spoilers.some((habit) => habit.isUnusable!(t));
  const isCrowded = habits.some((habit) => habit.rowsAt !== undefined);
  /** Rows of crowded milliseconds that were served. */
  const shown = new Set<string>();
  /** The latest tick that each night showed of a symbol. */
  const shownTo = new Map<string, { readonly night: number; readonly t: number }[]>();
  const service: Service = {
    requests: 0,
    night: 0,
    appears,
    isUnusable,
    isShown: (t, { name }) =>
      !isCrowded ||
      Array.from({ length: rowsAt(t) }, (_, row) => t + row * part).every((one) => shown.has(`${name} ${one}`)),
    async ticks({ symbol, from, to, limit }) {
      service.requests++;
      hand.now += Math.floor(dice.between(20, 200));
      await Promise.resolve();
      const listed = byName.get(symbol)!;
      const { night } = service;
      const knownTo = shownTo.get(symbol)?.findLast((one) => one.night < night)?.t ?? Number.NEGATIVE_INFINITY;
      const asked = { listed, from, to, night, now: hand.now, knownTo, dice };
      const facts = { symbol, window: { from, to } };
      if (habits.some((habit) => habit.refuses?.(asked)))
        throw new UpstreamError('tick page', { failure: 'refused', status: 400, reason: 'HTTP 400', ...facts });
      if (habits.some((habit) => habit.fails?.(asked)))
        throw new UpstreamError('tick page', { failure: 'transient', reason: 'error: "internal"', ...facts });
      const { times, isCut } = answer(asked, limit);
      if (isCrowded) for (const t of times) shown.add(`${symbol} ${t}`);
      const last = times.at(-1);
      if (last !== undefined && last > knownTo)
        shownTo.set(symbol, [...(shownTo.get(symbol) ?? []), { night, t: last }]);
      const usable = spoilers.length === 0 ? times.slice() : times.filter((t) => !isUnusable(Math.floor(t)));
      const unusable = spoilers.length === 0 ? [] : [...times].filter((t) => isUnusable(Math.floor(t)));
      for (const habit of habits) habit.orders?.(usable, dice);
      return {
        t: usable.map(Math.floor),
        p: usable.map((t) => (Math.round(900 * hash(Math.floor(t), 1)) + (t % 1) / part) / 1000),
        received: times.length,
        rejected: unusable.map((t) => ({ reason: 'p is not a number', raw: `{"t":${t},"p":"?"}` })),
        gaps: intersect(gaps, [{ from, to }]),
        ...states(times.map(Math.floor), { ...asked, isCut }),
        generatedAt: dates(hand.now),
      };
    },
  };

  function answer(asked: Asked, limit: number): { readonly times: Float64Array; readonly isCut: boolean } {
    if (habits.some((habit) => habit.isSilent?.(asked))) return { times: new Float64Array(), isCut: false };
    let span: Span = {
      from: includesFrom ? asked.from : asked.from + 1,
      to: Math.min(includesTo ? asked.to : asked.to - 1, asked.now),
    };
    // The bounds depend on the request only, not on a tick that is brought in addition: none is if they exclude its start (A2).
    const { from } = span;
    for (const habit of habits) span = habit.narrows?.({ ...asked, ...span }) ?? span;
    if (span.from <= from) for (const habit of habits) span = habit.widens?.({ ...asked, ...span }) ?? span;
    let times = slice(asked.listed.times, span);
    for (const habit of habits) {
      const { hasTick, appears: when } = habit;
      if (hasTick !== undefined) times = times.filter((t) => hasTick(t, asked));
      if (when !== undefined) times = times.filter((t) => when(t, asked.listed) <= asked.now);
    }
    if (gaps.length > 0) times = times.filter((t) => !gaps.some((gap) => isWithin(t, gap)));
    if (isCrowded)
      times = Float64Array.from(
        [...times].flatMap((t) => Array.from({ length: rowsAt(t) }, (_, row) => t + row * part)),
      );
    const all = times.length;
    for (const habit of habits) times = habit.cuts?.(times, { ...asked, ...span }) ?? times;
    if (times.length > limit) times = times.subarray(0, limit);
    return { times: times.slice(), isCut: times.length < all };
  }
  return service;
}

/** How much later than the one before it a further row of a millisecond is, in ms: exact at any time of this century. */
const part = 2 ** -10;

/** The position of the first time at or after `t`. */
export function positionOf(times: Float64Array, t: number): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle]! < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

const slice = (times: Float64Array, { from, to }: Span): Float64Array =>
  times.subarray(positionOf(times, from), Math.max(positionOf(times, from), positionOf(times, to + 1)));

type Side = 'first' | 'last';

/** Keeps ticks from one side as long as `goesOn`, which sees the next tick and the ones kept before it. */
function keepWhile(
  times: Float64Array,
  side: Side,
  goesOn: (t: number, before: number | undefined, kept: number) => boolean,
): Float64Array {
  const n = times.length;
  for (let i = 0; i < n; i++) {
    const [t, before] = side === 'first' ? [times[i]!, times[i - 1]] : [times[n - 1 - i]!, times[n - i]];
    if (!goesOn(t, before, i)) return side === 'first' ? times.subarray(0, i) : times.subarray(n - i);
  }
  return times;
}

/** The number of rows that a server sends at most. */
const capped = (name: string, side: Side, rows: (asked: Asked) => number): Habit => ({
  name,
  isPromised: true,
  budget: { side, isOfRows: true },
  cuts(times, asked) {
    const max = Math.floor(rows(asked));
    if (times.length <= max) return times;
    return side === 'first' ? times.subarray(0, max) : times.subarray(times.length - max);
  },
});

/** A number of bytes in place of rows. */
const cappedByBytes = (side: Side, bytes: number): Habit => ({
  name: `${side} ${bytes} bytes`,
  isPromised: true,
  budget: { side, isOfRows: true },
  cuts(times) {
    let sum = 0;
    return keepWhile(times, side, (t) => {
      sum += 30 + 40 * hash(t, 2);
      return sum <= bytes;
    });
  },
});

const clamped = (side: Side, hours: number): Habit => ({
  name: `${side} ${hours} h of the request`,
  isPromised: true,
  bound: side,
  narrows: ({ from, to }) =>
    side === 'first'
      ? { from, to: Math.min(to, from + hours * hour) }
      : { from: Math.max(from, to - hours * hour), to },
});

/** Whole UTC units from the one in which the request begins or ends. */
const calendar = (side: Side, n: number, unit: number, name: string): Habit => ({
  name: `${side} ${n} UTC ${name}`,
  isPromised: true,
  bound: side,
  narrows({ from, to }) {
    const [first, last] = [from - (from % unit), to - (to % unit)];
    return side === 'first'
      ? { from, to: Math.min(to, first + n * unit - 1) }
      : { from: Math.max(from, last - (n - 1) * unit), to };
  },
});

/** The first or last files that have data: a file for each UTC hour or day. */
const files = (side: Side, n: number, unit: number, name: string): Habit => ({
  name: `${side} ${n} ${name} files with data`,
  isPromised: true,
  budget: { side, isOfRows: false },
  cuts(times) {
    const seen = new Set<number>();
    return keepWhile(times, side, (t) => seen.add(Math.floor(t / unit)).size <= n);
  },
});

const untilGap = (side: Side, hours: number): Habit => ({
  name: `${side === 'first' ? 'up to the first' : 'back to the last'} gap of ${hours} h`,
  isPromised: true,
  budget: { side, isOfRows: false },
  cuts: (times) => keepWhile(times, side, (t, before) => before === undefined || Math.abs(t - before) < hours * hour),
});

/** Reads files from one end of the request on, until one is absent. */
const untilAbsent = (side: Side, unit: number, name: string): Habit => ({
  name: `${side === 'first' ? 'up to the first' : 'back to the last'} absent ${name}`,
  isPromised: true,
  budget: { side, isOfRows: false },
  cuts: (times) =>
    keepWhile(
      times,
      side,
      (t, before) => before === undefined || Math.abs(Math.floor(t / unit) - Math.floor(before / unit)) <= 1,
    ),
});

/** The same, and the file of the request's own end may be absent too. */
const untilAbsentOfRequest = (side: Side, unit: number, name: string): Habit => ({
  name: `${side === 'first' ? 'up to the first' : 'back to the last'} absent ${name} of the request`,
  isPromised: true,
  budget: { side, isOfRows: false },
  cuts: (times, { from, to, now }) =>
    keepWhile(times, side, (t, before) => {
      const near = before ?? (side === 'first' ? from : Math.min(to, now));
      return Math.abs(Math.floor(t / unit) - Math.floor(near / unit)) <= 1;
    }),
});

const spanned = (side: Side, hours: number): Habit => ({
  name: `${hours} h ${side === 'first' ? 'from the first' : 'before the last'} tick`,
  isPromised: true,
  budget: { side, isOfRows: false },
  cuts: (times) =>
    keepWhile(times, side, (t) => Math.abs(t - (side === 'first' ? times[0]! : times.at(-1)!)) <= hours * hour),
});

/** What is older is not there, for no request and beside none. */
const keepsFrom = (name: string, from: (asked: Asked) => number): Habit => ({
  name,
  isPromised: true,
  narrows: (asked) => ({ from: Math.max(asked.from, from(asked)), to: asked.to }),
  hasTick: (t, asked) => t >= from(asked),
});

const keepsDays = (days: number): Habit => keepsFrom(`keeps ${days} days`, ({ now }) => now - days * day);

const keepsRows = (rows: number): Habit => ({
  ...keepsFrom(
    `keeps ${rows} rows a symbol`,
    ({ now, listed: { times } }) => times[positionOf(times, now + 1) - rows] ?? Number.NEGATIVE_INFINITY,
  ),
  isRowStore: true,
});

const silent = (name: string, isSilent: (asked: Asked) => boolean): Habit => ({ name, isPromised: true, isSilent });

/** Whether requests reach a known tick of the symbol. */
const isAnchored = ({ knownTo, now }: Pick<Asked, 'knownTo' | 'now'>): boolean => knownTo > now - 4.5 * day;

/** At random; symbols without a known tick on two of eight days only (A5). */
const isEmptied = (asked: Asked, share: number): boolean =>
  asked.dice.share() < share && (isAnchored(asked) || (Math.floor(asked.now / day) + asked.listed.nth) % 4 === 0);

const lagging = (hours: number, isPromised = true): Habit => ({
  name: `replica ${hours} h behind`,
  isPromised,
  narrows: ({ from, to, now, dice }) => ({ from, to: dice.share() < 0.5 ? Math.min(to, now - hours * hour) : to }),
});

const late = (hours: number, isPromised = true): Habit => ({
  name: `3 % late by ${hours} h`,
  isPromised,
  appears: (t, { nth }) => (hash(t, nth + 100) < 0.03 ? t + hours * hour * (0.2 + 0.8 * hash(t, nth + 200)) : t),
});

const rounding = (unit: number, name: string, isOutward: boolean): Habit => ({
  name: `rounds to ${name}${isOutward ? ' outward' : ''}`,
  isPromised: true,
  narrows: ({ from, to }) => ({
    from: from - (from % unit),
    to: isOutward ? Math.ceil(to / unit) * unit : to - (to % unit),
  }),
});

const refusing = (hours: number): Habit => ({
  name: `refuses widths over ${hours} h`,
  isPromised: true,
  refuses: ({ from, to }) => to - from > hours * hour + 5,
});

/** Live ticks of the last two hours, and a day's file that appears some hours after the day. */
const partitioned = (hours: number, isPromised = true): Habit => ({
  name: `live 2 h, a day's partition ${hours} h after it`,
  isPromised,
  hasTick: (t, { now }) => t > now - 2 * hour || midnightOf(t) + day + hours * hour <= now,
});

const stating = (name: string, states: NonNullable<Habit['states']>): Habit => ({
  ...capped(`last 40 rows, ${name}`, 'last', () => 40),
  states,
});

/** Some milliseconds have many rows, and few have more than a response. */
const crowding = (side: Side): Habit => ({
  ...capped(`${side} 60 rows, many in a millisecond`, side, () => 60),
  rowsAt: (t) => (hash(t, 7) < 0.03 ? 2 + Math.floor((hash(t, 11) < 0.05 ? 90 : 25) * hash(t, 8)) : 1),
});

/** Ignores where a request begins, or that and where it ends. */
const deaf = (side: Side, ignoresEnd: boolean): Habit => ({
  ...capped(`${side} 100 rows, ignores ${ignoresEnd ? 'both ends' : 'from'}`, side, () => 100),
  narrows: ({ to, now }) => ({ from: Number.NEGATIVE_INFINITY, to: ignoresEnd ? now : to }),
});

const outside = (habit: Habit): Habit => ({ ...habit, isPromised: false });

export const honest: Habit = { name: 'honest', isPromised: true };

/** All habits alone, as PROOF.md lists them. */
export const habits: readonly Habit[] = [
  honest,
  capped('first 100 rows', 'first', () => 100),
  capped('last 100 rows', 'last', () => 100),
  capped('first 60 rows ± 50 %', 'first', ({ dice }) => 60 * dice.between(0.5, 1.5)),
  capped('last 60 rows ± 50 %', 'last', ({ dice }) => 60 * dice.between(0.5, 1.5)),
  capped('first 5 to 45 rows by symbol', 'first', ({ listed }) => 5 + 40 * hash(listed.nth, 3)),
  capped('last 5 to 45 rows by symbol', 'last', ({ listed }) => 5 + 40 * hash(listed.nth, 3)),
  cappedByBytes('first', 3000),
  cappedByBytes('last', 3000),
  ...[7, 12, 24, 48, 72].flatMap((hours) => [clamped('first', hours), clamped('last', hours)]),
  ...[1, 2].flatMap((n) => [calendar('first', n, day, 'days'), calendar('last', n, day, 'days')]),
  ...[12, 30].flatMap((n) => [calendar('first', n, hour, 'hours'), calendar('last', n, hour, 'hours')]),
  ...[1, 2].flatMap((n) => [files('first', n, day, 'day'), files('last', n, day, 'day')]),
  files('first', 12, hour, 'hour'),
  files('last', 12, hour, 'hour'),
  files('first', 2, hour, 'hour'),
  files('last', 2, hour, 'hour'),
  ...[8, 24, 60].flatMap((hours) => [untilGap('first', hours), untilGap('last', hours)]),
  ...[
    [day, 'day'],
    [hour, 'hour'],
  ].flatMap(([unit, name]) => [
    untilAbsent('first', unit as number, name as string),
    untilAbsent('last', unit as number, name as string),
    untilAbsentOfRequest('first', unit as number, name as string),
    untilAbsentOfRequest('last', unit as number, name as string),
  ]),
  ...[24, 48, 72].flatMap((hours) => [spanned('first', hours), spanned('last', hours)]),
  ...[1, 3, 4, 12, 30].map(keepsDays),
  keepsRows(400),
  keepsRows(60),
  silent('10 % empty', (asked) => isEmptied(asked, 0.1)),
  silent('30 % empty', (asked) => isEmptied(asked, 0.3)),
  silent('half of the symbols empty in night 1', ({ night, listed }) => night === 0 && hash(listed.nth, 4) < 0.5),
  silent('half of the symbols empty in night 2', ({ night, listed }) => night === 1 && hash(listed.nth, 4) < 0.5),
  silent('source A empty in night 1', ({ night, listed }) => night === 0 && listed.source === 'A'),
  silent('source A empty in night 3', ({ night, listed }) => night === 2 && listed.source === 'A'),
  silent('a busy symbol empty in nights 1, 2', ({ night, listed }) => night < 2 && listed.nth === 0),
  silent(
    'a busy symbol empty as long as it has a known tick',
    ({ listed, ...asked }) => listed.nth === 0 && isAnchored(asked),
  ),
  silent(
    'a sparse symbol empty in nights 2, 4',
    ({ night, listed: { kind, nth } }) => kind === 'sparse' && nth % 9 === 0 && (night === 1 || night === 3),
  ),
  { name: '15 % errors', isPromised: true, fails: ({ dice }) => dice.share() < 0.15 },
  late(12),
  late(24),
  lagging(6),
  lagging(20),
  rounding(1000, 'seconds', false),
  rounding(60_000, 'minutes', false),
  rounding(day, 'days', false),
  rounding(1000, 'seconds', true),
  rounding(60_000, 'minutes', true),
  rounding(day, 'days', true),
  refusing(24),
  refusing(100),
  partitioned(6),
  {
    ...capped('first or last 100 rows, by turns', 'first', () => 100),
    budget: { side: 'either', isOfRows: true },
    cuts: (times, { dice }) =>
      dice.share() < 0.5 ? times.subarray(0, 100) : times.subarray(Math.max(0, times.length - 100)),
  },
  crowding('first'),
  crowding('last'),
  ...(['first', 'last'] as const).map((side) => ({
    ...crowding(side),
    name: `${crowding(side).name}, 10 % empty`,
    isSilent: (asked: Asked) => isEmptied(asked, 0.1),
  })),
  // The end of each request is rounded down, so that a page lacks the tick from which it goes on backward.
  ...([1000, 60_000, hour, day] as const).map((unit) => ({
    ...capped(`last 100 rows, rounds to ${unit / 1000} s`, 'last', () => 100),
    narrows: rounding(unit, '', false).narrows!,
  })),
  // What is not served yet is stored all the same, so that a symbol seems to have few rows.
  ...[60, 400].map((rows) => ({
    ...keepsRows(rows),
    name: `keeps ${rows} rows a symbol, a day's partition 6 h after it`,
    isPromised: false,
    hasTick: partitioned(6).hasTick!,
  })),
  // The ticks of their first day are not served yet in night 2, so that only two of three empty nights are false.
  ...[partitioned(6), lagging(20)].map((habit) => ({
    ...habit,
    name: `${habit.name}, symbols of the first day empty in nights 3, 4`,
    isSilent: ({ night, listed: { times } }: Asked) =>
      (night === 2 || night === 3) && Math.abs(times[0]! - Date.UTC(2026, 5, 20, 14, 30)) < 10.5 * hour,
  })),
  deaf('first', false),
  deaf('last', false),
  deaf('first', true),
  deaf('last', true),
  rounding(hour, 'hours', false),
  rounding(hour, 'hours', true),
  stating('states the ends of what it cut', (times, { from, to, isCut }) =>
    isCut && times.length > 0 ? { from: times[0]!, to: times.at(-1)! } : { from, to },
  ),
  stating('states from where it cut', (times, { from, to, isCut }) => ({
    from: (isCut ? times[0] : undefined) ?? from,
    to,
  })),
  stating('states to where it cut', (times, { from, to, isCut }) => ({
    from,
    to: (isCut ? times.at(-1) : undefined) ?? to,
  })),
  stating('states its first and last tick', (times) => ({ from: times[0] ?? null, to: times.at(-1) ?? null })),
  {
    ...keepsDays(4),
    name: 'keeps 4 days, and states them',
    states: (_, { from, to, now }) => ({ from: Math.max(from, now - 4 * day), to: Math.min(to, now) }),
  },
  {
    ...capped('first 100 rows, 10 % of them twice', 'first', () => 100),
    cuts: (times) => Float64Array.from([...times].flatMap((t) => (hash(t, 9) < 0.1 ? [t, t] : t))).subarray(0, 100),
  },
  { ...capped('last 40 rows, 5 % of them unusable', 'last', () => 40), isUnusable: (t) => hash(t, 10) < 0.05 },
  { ...capped('first 40 rows, newest first', 'first', () => 40), orders: (times) => times.reverse() },
  {
    ...capped('last 40 rows, shuffled', 'last', () => 40),
    orders(times, dice) {
      for (let i = times.length - 1; i > 0; i--) {
        const other = Math.floor(dice.between(0, i + 1));
        [times[i], times[other]] = [times[other]!, times[i]!];
      }
    },
  },
  {
    name: 'brings the tick before the request',
    isPromised: true,
    widens({ from, to, listed: { times } }) {
      return { from: times[positionOf(times, from) - 1] ?? from, to };
    },
  },
  {
    ...capped('first 100 rows, states gaps', 'first', () => 100),
    gaps: [3, 8, 15, 17].map((days) => {
      const from = Date.UTC(2026, 5, days, days);
      return { from, to: from + days * hour };
    }),
  },
  { ...capped('first 40 rows, dated 700 ms ago', 'first', () => 40), dates: (now) => now - 700 },
  { ...capped('last 40 rows, dated to the minute', 'last', () => 40), dates: (now) => now - (now % 60_000) },
  // Bounds that stay where they are for some nights (A2).
  keepsFrom('has nothing from before 13 June, 15:00', () => Date.UTC(2026, 5, 13, 15)),
  {
    name: 'has nothing from 18 June, 9:00, on, until night 5',
    isPromised: true,
    narrows: ({ from, to, night }) => ({ from, to: night < 4 ? Math.min(to, Date.UTC(2026, 5, 18, 9) - 1) : to }),
  },
  // What PROOF.md does not promise.
  {
    name: '24 h around the middle tick',
    isPromised: false,
    cuts(times) {
      const middle = times[times.length >> 1]!;
      return times.filter((t) => Math.abs(t - middle) <= 12 * hour);
    },
  },
  {
    name: 'up to the first absent day, and 60 rows a symbol',
    isPromised: false,
    narrows: keepsRows(60).narrows!,
    cuts: untilAbsent('first', day, 'day').cuts!,
  },
  { name: 'every second tick', isPromised: false, cuts: (times) => times.filter((_, i) => i % 2 === 0) },
  {
    name: 'the first and the last 20 rows',
    isPromised: false,
    cuts: (times) => times.filter((_, i) => i < 20 || i >= times.length - 20),
  },
  partitioned(36, false),
  late(60, false),
  lagging(40, false),
  outside({
    name: 'first 12 to 72 h of the request, by symbol',
    isPromised: true,
    narrows: ({ from, to, listed }) => ({ from, to: Math.min(to, from + (12 + 60 * hash(listed.nth, 5)) * hour) }),
  }),
  outside({
    name: 'keeps 2 to 10 days, by symbol',
    isPromised: true,
    narrows: ({ from, to, now, listed }) => ({ from: Math.max(from, now - (2 + 8 * hash(listed.nth, 6)) * day), to }),
  }),
];

/** Whether requests that go on where a response ends bring all ticks, all usable: only rows are limited, and from one end. Late ticks alone do too. */
export const showAll = (set: readonly Habit[]): boolean =>
  new Set(set.flatMap(({ budget }) => budget?.side ?? [])).size <= 1 &&
  set.every(
    ({ isSilent, narrows, appears, budget, isLater, isUnusable }) =>
      isLater !== true &&
      (isUnusable ?? isSilent ?? narrows ?? (set.length > 1 ? appears : undefined)) === undefined &&
      budget?.isOfRows !== false,
  );

/**
 * Whether the assumptions of PROOF.md hold for all habits together: cuts of data from one end, those of rows from one end too where
 * a millisecond has many (no cap hits the same tick twice), a store of rows that shows all its rows, and bounds of requests at one end:
 * the latter half of the former half of a request ends with `to`, not as late as its `from` allows.
 */
export function arePromised(set: readonly Habit[]): boolean {
  const budgets = set.flatMap(({ budget }) => budget ?? []);
  const hasDataCut = budgets.some(({ isOfRows }) => !isOfRows);
  const hasCrowds = set.some(({ rowsAt }) => rowsAt !== undefined);
  const isOneSided = budgets.every(({ side }) => side !== 'either' && side === budgets[0]!.side);
  const isRowStore = set.some((habit) => habit.isRowStore === true);
  const hidesRows =
    hasDataCut ||
    set.some(
      (one) => one.isRowStore !== true && (one.hasTick ?? one.appears ?? one.widens ?? one.narrows) !== undefined,
    );
  const areBudgetsPromised = isOneSided || !(hasDataCut || hasCrowds);
  const areBoundsPromised = new Set(set.flatMap(({ bound }) => bound ?? [])).size <= 1;
  return (
    set.every(({ isPromised }) => isPromised) && areBudgetsPromised && areBoundsPromised && !(isRowStore && hidesRows)
  );
}

/** A habit of one source only, or from a night on. */
export function limit(habit: Habit, { source, night = 0 }: { source?: 'A' | 'B'; night?: number }): Habit {
  const isOn = (asked: Asked): boolean =>
    asked.night >= night && (source === undefined || asked.listed.source === source);
  const { refuses, fails, isSilent, widens, narrows, hasTick, cuts, appears } = habit;
  return {
    name: `${habit.name}${source === undefined ? '' : ` (source ${source})`}${night === 0 ? '' : ` from night ${night + 1}`}`,
    isPromised: habit.isPromised,
    ...(habit.budget && { budget: habit.budget }),
    ...(night > 0 && { isLater: true }),
    ...(habit.bound && { bound: habit.bound }),
    ...(habit.isRowStore && { isRowStore: true }),
    ...(refuses && { refuses: (asked) => isOn(asked) && refuses(asked) }),
    ...(fails && { fails: (asked) => isOn(asked) && fails(asked) }),
    ...(isSilent && { isSilent: (asked) => isOn(asked) && isSilent(asked) }),
    ...(widens && { widens: (asked) => (isOn(asked) ? widens(asked) : asked) }),
    ...(narrows && { narrows: (asked) => (isOn(asked) ? narrows(asked) : asked) }),
    ...(hasTick && { hasTick: (t, asked) => !isOn(asked) || hasTick(t, asked) }),
    ...(cuts && { cuts: (times, asked) => (isOn(asked) ? cuts(times, asked) : times) }),
    ...(appears && { appears }),
  };
}

/** Draws a server with one to three habits, each for all nights and sources, from a night on, or for one source; and how long it is used. */
export function drawServer(seed: number, from = habits) {
  const dice = createDice(seed + 104_729);
  const set = Array.from({ length: dice.pick([1, 2, 2, 2, 3]) }, () => {
    const habit = dice.pick(from);
    const kind = dice.share();
    if (kind < 0.2) return limit(habit, { source: dice.pick(['A', 'B'] as const) });
    return kind < 0.4 ? limit(habit, { night: 1 + Math.floor(dice.between(0, 3)) }) : habit;
  });
  return { set, size: { symbols: dice.pick([12, 25, 40]), nights: dice.pick([1, 1, 1, 1, 1, 1, 5, 5, 5, 15]) } };
}
