import { formatCount, formatDuration } from '../../base/format-quantity.ts';
import { dayMs, hourMs, isWithin, subtract, union, type Window } from '../../base/window.ts';

/**
 * How far apart two moments are, in the units by which servers cut their answers: in ms, and by the UTC hour limits and
 * midnights between them.
 */
interface Extent {
  readonly ms: number;
  readonly hours: number;
  readonly days: number;
}

const hourOf = (t: number): number => Math.floor(t / hourMs);
const dayOf = (t: number): number => Math.floor(t / dayMs);

/** Ticks of a response. Times are epoch ms. */
interface Ticks {
  /** Null: there are none. */
  readonly first: number | null;
  readonly last: number | null;
  /** The number of UTC hours and days in which they lie. */
  readonly hours: number;
  readonly days: number;
}

/** What one response showed of one symbol inside the requested window. Times are epoch ms. */
export interface Shown extends Window, Ticks {
  /** Distinct times of ticks. */
  readonly count: number;
  /** Elements of the response, usable or not. */
  readonly received: number;
  /** All of it: what a server brings beside the window used up a part of its budget too. */
  readonly whole: Ticks;
  /** The greatest distances between two adjacent ticks, and the two ticks that are the furthest apart; null: fewer than two. */
  readonly bridge: Extent;
  readonly gap: Window | null;
}

const summarizeTicks = (times: Float64Array): Ticks => ({
  first: times[0] ?? null,
  last: times.at(-1) ?? null,
  hours: times.reduce((n, t, i) => (i > 0 && hourOf(times[i - 1]!) === hourOf(t) ? n : n + 1), 0),
  days: times.reduce((n, t, i) => (i > 0 && dayOf(times[i - 1]!) === dayOf(t) ? n : n + 1), 0),
});

const unknownTicks: Ticks = {
  first: Number.NEGATIVE_INFINITY,
  last: Number.POSITIVE_INFINITY,
  hours: Number.POSITIVE_INFINITY,
  days: Number.POSITIVE_INFINITY,
};

/**
 * Summarizes a response.
 * @param times inside the window, distinct and ascending
 * @param received its elements, usable or not
 * @param all its times, inside the window or not; null: some are not known, because elements are unusable. They may lie in any gap, and
 * use up any budget
 */
export function summarizeShown(
  { from, to }: Window,
  times: Float64Array,
  received: number,
  all: Float64Array | null = times,
): Shown {
  let [ms, hours, days] = [0, 0, 0];
  let before: number | null = null;
  let gap: Window | null = null;
  for (const t of times) {
    if (before !== null) {
      if (t - before > ms) gap = { from: before, to: t };
      ms = Math.max(ms, t - before);
      hours = Math.max(hours, hourOf(t) - hourOf(before));
      days = Math.max(days, dayOf(t) - dayOf(before));
    }
    before = t;
  }
  const ticks = summarizeTicks(times);
  return {
    from,
    to,
    ...ticks,
    count: times.length,
    received,
    whole: all === null ? unknownTicks : all === times ? ticks : summarizeTicks(all),
    bridge: all === null ? { ms: 0, hours: 0, days: 0 } : { ms, hours, days },
    gap: all === null ? null : gap,
  };
}

/** The greatest value, and the greatest of other owners: what one sees of the others. */
class TopTwo {
  #best = Number.NEGATIVE_INFINITY;
  #owner: unknown;
  #second = Number.NEGATIVE_INFINITY;

  note(value: number, owner: unknown): this {
    if (owner === this.#owner) this.#best = Math.max(this.#best, value);
    else if (value > this.#best) [this.#second, this.#best, this.#owner] = [this.#best, value, owner];
    else this.#second = Math.max(this.#second, value);
    return this;
  }

  /** The greatest value of others. -Infinity if there is none. */
  without(owner: unknown): number {
    return owner === this.#owner ? this.#second : this.#best;
  }

  copy(): TopTwo {
    const other = new TopTwo();
    [other.#best, other.#owner, other.#second] = [this.#best, this.#owner, this.#second];
    return other;
  }
}

/** What the other responses of a night bear witness of, for one response. */
export interface Witnessed {
  /** The latest tick of a response that began no later; -Infinity: none. */
  readonly latest: number;
  /** The earliest tick of a response that ended no earlier; Infinity: none. */
  readonly earliest: number;
  readonly bridge: Extent;
  /** The greatest time from the first to the last tick of a response, in ms. */
  readonly spanMs: number;
  /** The most UTC hours and days in which a response had ticks. */
  readonly hours: number;
  readonly days: number;
  /** The most whole UTC hours and days that a response passed before its first tick, and after its last one. */
  readonly before: Pick<Extent, 'hours' | 'days'>;
  readonly after: Pick<Extent, 'hours' | 'days'>;
  /** The most ticks that the run showed of another symbol. */
  readonly mostTicks: number;
}

const measures = {
  bridgeMs: ({ bridge }: Shown) => bridge.ms,
  bridgeHours: ({ bridge }: Shown) => bridge.hours,
  bridgeDays: ({ bridge }: Shown) => bridge.days,
  spanMs: ({ first, last }: Shown) => last! - first!,
  hours: ({ hours }: Shown) => hours,
  days: ({ days }: Shown) => days,
};

/** No page cap of a server is smaller. */
export const pageCapMin = 4;

/** Whether a row cap may have cut a response, so that what it lacks at an end is not known to be empty. */
export const mayBeCapped = ({ received }: Shown): boolean => received >= pageCapMin;

type Measure = keyof typeof measures;

/** A time without ticks of a symbol, epoch ms. */
interface Silence extends Window {
  readonly symbol: string;
}

/** The longest silences that a night showed: between two ticks, before a first tick, and after a last one. */
export type Silences = Readonly<Record<'bridge' | 'lead' | 'trail', Silence | null>>;

export const noSilences: Silences = { bridge: null, lead: null, trail: null };

const lengthOf = (window: Window | null): number => (window === null ? 0 : window.to - window.from);

/** Of each kind the longer one, of two equally long ones that of `a`. */
export const pickLonger = (a: Silences, b: Silences): Silences => ({
  bridge: lengthOf(b.bridge) > lengthOf(a.bridge) ? b.bridge : a.bridge,
  lead: lengthOf(b.lead) > lengthOf(a.lead) ? b.lead : a.lead,
  trail: lengthOf(b.trail) > lengthOf(a.trail) ? b.trail : a.trail,
});

/** The whole UTC hours and days of a time without ticks. */
const countWhole = (silence: Window | null): Pick<Extent, 'hours' | 'days'> => ({
  hours: silence === null ? 0 : Math.max(0, hourOf(silence.to) - Math.ceil(silence.from / hourMs)),
  days: silence === null ? 0 : Math.max(0, dayOf(silence.to) - Math.ceil(silence.from / dayMs)),
});

/** Share of empty responses among requests that reach a known tick, above which a night is sick. */
const sickShare = 0.01;

/** With fewer symbols, none may have as few ticks or as long a silence as another. */
const witnessesMin = 20;

/** A known tick that a response left out, and when that was generated. Epoch ms. */
export type Omission = Readonly<Record<'t' | 'at', number>> & { readonly symbol: string };

/** What the responses of one source showed in one run, in which each is a witness for all others. */
export class Night {
  /** All responses with ticks, in the order in which they came. */
  readonly shown: { readonly symbol: string; readonly shown: Shown }[] = [];
  readonly #measures = new Map(Object.keys(measures).map((name) => [name as Measure, new TopTwo()]));
  readonly #mostTicks = new TopTwo();
  /** How many different ticks of each symbol were shown. */
  readonly #ticks = new Map<string, number>();
  /** The response of each symbol with the most ticks. */
  readonly #fullest = new Map<string, Shown>();
  /** The windows that were requested of each symbol, with or without ticks. */
  readonly requested = new Map<string, readonly Window[]>();
  /** Those that answers with ticks showed whole: what a row cap, a stated gap or a false empty answer left out is not known. */
  readonly showed = new Map<string, readonly Window[]>();
  readonly #known = { requests: 0, empty: 0 };
  /** The first known tick that a response left out between its first and last tick: then the run proves nothing. */
  omission: Omission | null = null;
  #silences: Silences | null = null;
  #latest: Reach | null = null;
  #earliest: Reach | null = null;

  /**
   * Adds a response. Empty ones bear no witness.
   * @param times of its ticks, distinct and ascending
   * @param gaps in which the server states that it has no data: its rows there may be among the last ones that it keeps
   */
  note(symbol: string, shown: Shown, times: Float64Array, gaps: readonly Window[]): void {
    const { from, to, first, last } = shown;
    this.requested.set(symbol, union([...(this.requested.get(symbol) ?? []), ...subtract([{ from, to }], gaps)]));
    if (shown.count === 0) return;
    this.shown.push({ symbol, shown });
    const before = this.showed.get(symbol) ?? [];
    const count = this.countTicks(symbol) + times.filter((t) => !before.some((window) => isWithin(t, window))).length;
    const whole = mayBeCapped(shown) ? { from: first!, to: last! + 1 } : { from, to };
    this.showed.set(symbol, union([...before, ...subtract([whole], gaps)]));
    for (const [name, top] of this.#measures) top.note(measures[name](shown), shown);
    this.#ticks.set(symbol, count);
    this.#mostTicks.note(count, symbol);
    if (shown.count > (this.#fullest.get(symbol)?.count ?? 0)) this.#fullest.set(symbol, shown);
    [this.#latest, this.#earliest, this.#silences] = [null, null, null];
  }

  /** The longest silences, as far from the ends of requests as a witness shows that the server answers. */
  get silences(): Silences {
    if (this.#silences !== null) return this.#silences;
    this.#silences = this.shown.reduce<Silences>((longest, { symbol, shown }) => {
      const { from, to, first, last, gap } = shown;
      // A store of each symbol's last rows shows a long lead before old ones.
      const isKept = this.#mostTicks.without(symbol) >= 2 * this.countTicks(symbol);
      return pickLonger(longest, {
        bridge: gap && { symbol, ...gap },
        lead:
          mayBeCapped(shown) || !isKept
            ? null
            : { symbol, from: Math.max(from, this.#findEarliest(shown)), to: first! },
        trail: mayBeCapped(shown) ? null : { symbol, from: last!, to: Math.min(to, this.#findLatest(shown)) },
      });
    }, noSilences);
    return this.#silences;
  }

  #greatest(of: (shown: Shown) => number): number {
    return this.shown.reduce((max, { shown }) => Math.max(max, of(shown)), Number.NEGATIVE_INFINITY);
  }

  /** The greatest distance from the start of a request to a tick, and from a tick to the end of one, in ms. */
  #measureReach() {
    return {
      forward: this.#greatest(({ from, last }) => last! - from),
      backward: this.#greatest(({ to, first }) => to - first!),
    };
  }

  /** How many different ticks of a symbol were shown. */
  countTicks(symbol: string): number {
    return this.#ticks.get(symbol) ?? 0;
  }

  /** The last tick of the fullest response if it began with `first`; -Infinity: it did not. */
  findLastFrom(symbol: string, first: number): number {
    const fullest = this.#fullest.get(symbol);
    return fullest?.first === first ? fullest.last! : Number.NEGATIVE_INFINITY;
  }

  /** Counts a request that reaches a tick known before. */
  noteKnown(isEmpty: boolean): void {
    this.#known.requests++;
    if (isEmpty) this.#known.empty++;
  }

  /** Whether so many requests that reach a known tick came back empty that no empty response means anything. */
  isSick(): boolean {
    const { requests, empty } = this.#known;
    return this.omission !== null || (empty > 1 && empty > sickShare * requests);
  }

  /**
   * The longest window that was requested of a symbol with ticks, and how far from an end of its request a response showed one, in ms;
   * Infinity: responses reach as far as there are ticks.
   */
  measureReach(): { readonly requestedMs: number; readonly reachMs: number } {
    const { forward, backward } = this.#measureReach();
    const there = this.#greatest(({ last }) => last!) + this.#greatest(({ from }) => -from);
    const thereBefore = this.#greatest(({ to }) => to) + this.#greatest(({ first }) => -first!);
    const reachMs = Math.min(
      there - forward > dayMs / 2 ? forward : Number.POSITIVE_INFINITY,
      thereBefore - backward > dayMs / 2 ? backward : Number.POSITIVE_INFINITY,
    );
    return { requestedMs: this.#greatest(({ from, to }) => to - from), reachMs };
  }

  /**
   * What keeps days from being proven in such nights, one clause; null: nothing that is seen.
   * @param windowMsMax the longest window that the server does not refuse, in ms; Infinity: any
   * @param reachMs how far its answers reached when more was requested, in ms; Infinity: as far
   */
  describeLimit({ windowMsMax, reachMs }: { readonly windowMsMax: number; readonly reachMs: number }): string | null {
    if (Number.isFinite(windowMsMax)) return `requests of more than ${formatDuration(windowMsMax)} are refused`;
    if (this.omission !== null) return 'responses left out ticks that earlier ones showed';
    const { requests, empty } = this.#known;
    if (this.isSick()) return `${empty} of ${requests} requests that reach a known tick came back empty`;
    if (Number.isFinite(reachMs)) return `answers reach ${formatDuration(reachMs)} only`;
    if (this.#ticks.size < witnessesMin)
      return `only ${formatCount(this.#ticks.size, 'symbol')} with ticks, too few witnesses for each other`;
    return null;
  }

  #findLatest(shown: Window): number {
    this.#latest ??= new Reach(this.shown, 'from', 'last', 1);
    return this.#latest.find(shown.from, shown);
  }

  #findEarliest(shown: Window): number {
    this.#earliest ??= new Reach(this.shown, 'to', 'first', -1);
    return -this.#earliest.find(-shown.to, shown);
  }

  /** What the other responses show, for one of them or for an empty one. */
  witness(symbol: string, shown: Window): Witnessed {
    const most = (name: Measure): number => Math.max(0, this.#measures.get(name)!.without(shown));
    return {
      latest: this.#findLatest(shown),
      earliest: this.#findEarliest(shown),
      bridge: { ms: most('bridgeMs'), hours: most('bridgeHours'), days: most('bridgeDays') },
      spanMs: most('spanMs'),
      hours: most('hours'),
      days: most('days'),
      before: countWhole(this.silences.lead),
      after: countWhole(this.silences.trail),
      mostTicks: Math.max(0, this.#mostTicks.without(symbol)),
    };
  }
}

/** The greatest tick, times `sign`, among the responses whose bound, times `sign`, is at most a given one. */
class Reach {
  readonly #bounds: readonly number[];
  readonly #tops: readonly TopTwo[];

  constructor(all: Night['shown'], bound: 'from' | 'to', tick: 'first' | 'last', sign: 1 | -1) {
    const sorted = all.map(({ shown }) => shown).sort((a, b) => sign * (a[bound] - b[bound]));
    this.#bounds = sorted.map((shown) => sign * shown[bound]);
    let top = new TopTwo();
    this.#tops = sorted.map((shown) => (top = top.copy().note(sign * shown[tick]!, shown)));
  }

  find(bound: number, owner: unknown): number {
    let [low, high] = [0, this.#bounds.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#bounds[middle]! <= bound) low = middle + 1;
      else high = middle;
    }
    return low === 0 ? Number.NEGATIVE_INFINITY : this.#tops[low - 1]!.without(owner);
  }
}
