/**
 * A service composed at random of ways to answer badly. It knows nothing of what the pager believes: each way is a
 * switch of its own, and any may meet any other.
 */
import type { Rejected } from '../../../src/core/tick.ts';
import { intersect, type Window, within } from '../../../src/core/window.ts';
import type { TickPage, TicksQuery } from '../../../src/upstream/upstream.ts';
import type { Random } from './random.ts';

/** One tick of the truth, epoch ms. It can be seen from `seenFrom` on. */
export interface Row {
  readonly t: number;
  readonly p: number;
  readonly seenFrom: number;
}

export interface Traits {
  /** Rows, or bytes, of a page; `variation`: how much less a single page may hold, as a share. */
  readonly cap: number;
  readonly capUnit: 'rows' | 'bytes';
  readonly variation: number;
  /** Another cap for each symbol, and another from the nth request on. */
  readonly isCapBySymbol: boolean;
  readonly capChangesAfter: number | null;
  readonly side: 'earliest' | 'latest' | 'alternating';
  readonly fromInclusive: boolean;
  readonly toInclusive: boolean;
  /** Ends that it states. */
  readonly ends: 'echo' | 'cut' | 'cut low' | 'cut high' | 'span' | 'none' | 'clamped';
  /** Shares of elements that are repeats, unusable, or of another kind; they take room in a page. */
  readonly repeats: number;
  readonly unusable: number;
  readonly order: 'ascending' | 'descending' | 'shuffled';
  /** Every response brings the last tick before the window too. */
  readonly carryIn: boolean;
  /** What it heeds of the window. */
  readonly heeds: 'window' | 'end' | 'nothing' | 'hours';
  /** Lags of its replicas, ms; one answers each request. */
  readonly lagsMs: readonly number[];
  /** More rows than this are answered by an even sample of so many. */
  readonly sample: number | null;
  /** History is capped, ticks younger than so many ms before now are put on top. */
  readonly liveOnTopMs: number | null;
  /** How far generated_at is behind, ms; null: it does not say; `frozenMs`: responses of so long a time state one moment. */
  readonly behindMs: number | null;
  readonly frozenMs: number;
  /** Oldest tick that it answers with, ms before now; null: all. */
  readonly keepsMs: number | null;
  /** Windows that it lacks and names. */
  readonly gaps: readonly Window[];
}

export const honest: Traits = {
  ...{ cap: 100, capUnit: 'rows', variation: 0, isCapBySymbol: false, capChangesAfter: null, side: 'earliest' },
  ...{ fromInclusive: true, toInclusive: false, ends: 'echo', repeats: 0, unusable: 0, order: 'ascending' },
  ...{ carryIn: false, heeds: 'window', lagsMs: [0], sample: null, liveOnTopMs: null, behindMs: 0, frozenMs: 0 },
  keepsMs: null,
  gaps: [],
};

/** Whether each response is one contiguous run of what the answering replica has. */
export const isContiguous = ({ sample, liveOnTopMs }: Traits): boolean => sample === null && liveOnTopMs === null;

export interface Hand {
  nowMs: number;
}

export interface Adversary {
  requests: number;
  ticks(query: TicksQuery): Promise<TickPage>;
}

const hourMs = 3_600_000;

/** A row is unusable in every response that brings it. */
export const isUsable = ({ t, p }: Row, { unusable }: Traits): boolean =>
  unusable === 0 || ((Math.imul(t % 100_003, 7919) + p * 1_000_003) >>> 0) % 10_007 >= unusable * 10_007;

export function adversary(
  truth: ReadonlyMap<string, readonly Row[]>,
  traits: Traits,
  hand: Hand,
  random: Random,
): Adversary {
  const symbols = [...truth.keys()];
  const service: Adversary = {
    requests: 0,
    async ticks(query) {
      service.requests++;
      for (let i = service.requests % 3; i > 0; i--) await Promise.resolve();
      hand.nowMs += 1 + random.int(20);
      const page = respond(query);
      await Promise.resolve();
      hand.nowMs += 1;
      return page;
    },
  };

  function respond(query: TicksQuery): TickPage {
    const asOf = hand.nowMs;
    const lag = traits.lagsMs[random.int(traits.lagsMs.length)]!;
    const oldest = traits.keepsMs === null ? Number.NEGATIVE_INFINITY : asOf - traits.keepsMs;
    const rows = (truth.get(query.symbol) ?? []).filter(
      (row) =>
        row.t <= asOf - lag &&
        row.seenFrom <= asOf - lag &&
        row.t >= oldest &&
        !traits.gaps.some((gap) => within(row.t, gap)),
    );
    const window = effective(query);
    const inside = rows.filter((row) => window.from <= row.t && row.t < window.to);
    const before = traits.carryIn ? rows.filter((row) => row.t < window.from).slice(-1) : [];
    const matching = withRepeats([...before, ...inside]);
    const kept = cut(matching, query, asOf);
    const elements = kept.map((row) => ({ row, isUsable: isUsable(row, traits) }));
    const ordered = inOrder(elements);
    const usable = ordered.filter((element) => element.isUsable).map(({ row }) => row);
    const rejected = ordered
      .filter((element) => !element.isUsable)
      .map(({ row }): Rejected => ({ reason: 'p is no number', raw: `{"t":${row.t},"p":"?"}` }));
    const generated = traits.behindMs === null ? null : asOf - traits.behindMs;
    const frozen = generated === null || traits.frozenMs === 0 ? generated : generated - (generated % traits.frozenMs);
    return {
      t: Float64Array.from(usable, ({ t }) => t),
      p: Float64Array.from(usable, ({ p }) => p),
      ...{ received: ordered.length, rejected, gaps: intersect(traits.gaps, [query]), generatedAt: frozen },
      ...stated(query, kept, kept.length < matching.length, asOf, oldest),
    };
  }

  function effective(query: Window): Window {
    const from = traits.heeds === 'hours' ? query.from - (query.from % hourMs) : query.from;
    const to = traits.heeds === 'hours' ? query.to - (query.to % hourMs) + hourMs : query.to;
    return {
      from:
        traits.heeds === 'nothing' || traits.heeds === 'end'
          ? Number.NEGATIVE_INFINITY
          : from + (traits.fromInclusive ? 0 : 1),
      to: traits.heeds === 'nothing' ? Number.POSITIVE_INFINITY : to + (traits.toInclusive ? 1 : 0),
    };
  }

  function withRepeats(rows: readonly Row[]): Row[] {
    if (traits.repeats === 0) return [...rows];
    return rows.flatMap((row) => (random.share() < traits.repeats ? [row, row] : [row]));
  }

  /** What fits on a page. */
  function cut(rows: readonly Row[], query: TicksQuery, asOf: number): Row[] {
    if (traits.liveOnTopMs !== null) {
      const since = asOf - traits.liveOnTopMs;
      const live = rows.filter(({ t }) => t >= since);
      return [
        ...contiguous(
          rows.filter(({ t }) => t < since),
          query,
        ),
        ...live,
      ];
    }
    if (traits.sample !== null && rows.length > traits.sample) {
      const step = rows.length / traits.sample;
      return Array.from({ length: traits.sample }, (_, i) => rows[Math.floor(i * step)]!);
    }
    return contiguous(rows, query);
  }

  function contiguous(rows: readonly Row[], { symbol, limit }: TicksQuery): Row[] {
    const bySymbol = traits.isCapBySymbol ? 1 / (1 + symbols.indexOf(symbol)) : 1;
    const later = traits.capChangesAfter !== null && service.requests > traits.capChangesAfter ? 0.6 : 1;
    const least = Math.min(8, traits.cap);
    const whole = Math.max(least, traits.cap * bySymbol * later);
    const cap = Math.max(least, Math.round(whole * (1 - random.share() * traits.variation)));
    const isEarliest = traits.side === 'alternating' ? service.requests % 2 === 0 : traits.side === 'earliest';
    const inward = isEarliest ? rows : rows.toReversed();
    const kept: Row[] = [];
    let used = 0;
    for (const row of inward) {
      used += traits.capUnit === 'rows' ? 1 : `{"t":${row.t},"p":${row.p}}`.length / 32;
      // A page of at least one row: a service that can send none sends nothing.
      if ((used > cap && kept.length > 0) || kept.length >= limit) break;
      kept.push(row);
    }
    return isEarliest ? kept : kept.reverse();
  }

  function inOrder<T extends { readonly row: Row }>(elements: readonly T[]): T[] {
    if (traits.order === 'descending') return elements.toReversed();
    if (traits.order === 'ascending') return [...elements];
    const out = [...elements];
    for (let i = out.length - 1; i > 0; i--) {
      const j = random.int(i + 1);
      [out[i], out[j]] = [out[j]!, out[i]!];
    }
    return out;
  }

  function stated(
    query: Window,
    kept: readonly Row[],
    isCut: boolean,
    asOf: number,
    oldest: number,
  ): { from: number | null; to: number | null } {
    const [first, last] = [kept[0]?.t ?? query.from, kept.at(-1)?.t ?? query.to];
    switch (traits.ends) {
      case 'none':
        return { from: null, to: null };
      case 'span':
        return kept.length === 0 ? { from: query.from, to: query.to } : { from: first, to: last };
      case 'clamped':
        return {
          from: Math.max(query.from, Number.isFinite(oldest) ? oldest : query.from),
          to: Math.min(query.to, asOf),
        };
      case 'cut':
        return isCut ? { from: first, to: last } : { from: query.from, to: query.to };
      case 'cut low':
        return { from: isCut ? first : query.from, to: query.to };
      case 'cut high':
        return { from: query.from, to: isCut ? last : query.to };
      default:
        return { from: query.from, to: query.to };
    }
  }
  return service;
}
