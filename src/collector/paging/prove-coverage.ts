import { type CoveredWindow, isProven } from '../../archive/format/coverage.ts';
import type { EmptyWindow } from '../../archive/journal/empty-responses.ts';
import { UpstreamError } from '../../base/errors.ts';
import { forEachConcurrent } from '../../base/for-each-concurrent.ts';
import {
  covers,
  dayMs,
  hourMs,
  intersect,
  intersectTwo,
  isEmpty,
  subtract,
  union,
  type Window,
} from '../../base/window.ts';
import { boundEdge, type Edge, findSupport, isLookDue, proveEdge } from '../proof/proven.ts';
import { mayBeCapped, type Night, pageCapMin, pickLonger, type Shown, type Silences } from '../proof/shown.ts';
import { claimWindow, type EmptyResponse, type FetchContext, requestWindow } from './fetch-symbol.ts';
import type { Observation } from './observation.ts';
import { grids, splitToReach, splitWindow, widenToGrid } from './server-behavior.ts';

/** What the archive knows of a symbol. Times in epoch ms; null: there is none. */
export interface KnownSymbol {
  /** Its ticks, published or journaled. */
  readonly first: number | null;
  readonly last: number | null;
  readonly count: number;
  /** When the last published response was generated. */
  readonly observedAt: number | null;
  readonly firstSeen: number;
  /** By the market lists. */
  readonly opensAt: number | null;
  /** The end of its last proven window. */
  readonly provenTo: number;
}

export interface ProofContext extends FetchContext {
  readonly night: Night;
  readonly concurrency: number;
  /** Age, in ms, at which the ticks that the server has are taken to be final; see `computeCut`. */
  readonly settleMs: number;
  /** The longest silences of earlier nights. */
  readonly knownSilences: Silences;
  /** The durable coverage of a symbol. */
  getCoverage(symbol: string): Window[];
  /** The part of it that collections claimed which were cut off, by time: where the service's history begins was not known then. */
  getUnjudged(symbol: string): readonly CoveredWindow[];
  getSymbol(symbol: string): KnownSymbol;
  /** The last known tick at or before a time, epoch ms; null if none is found. */
  findTick(symbol: string, at: number): Promise<number | null>;
}

/** Requests per collection that show how far the server reaches. */
const yardsticksMax = 3;

/**
 * Proves the ends of what the responses of a run showed, by what its other responses show: after all symbols were requested,
 * and once more after requests for what is still unproven. Appends what is proven. Resolves to the edges that are not,
 * and to the known silences that remain so.
 */
export async function proveEdges(
  context: ProofContext,
  edges: readonly Edge[],
  empties: readonly EmptyResponse[],
): Promise<{ readonly open: readonly Edge[]; readonly silences: Silences }> {
  let open = await claimProven(context, edges);
  if (open.length === 0 && empties.length === 0) return { open, silences: context.knownSilences };
  await checkGrid(
    context,
    context.night.shown.map(({ symbol, shown }) => ({ symbol, tick: shown.first! })),
  );
  const silences = await requestSilences(context);
  const needed = findNeededReach(context.night, open, empties);
  for (let i = 0; i < yardsticksMax; i++) if (await requestReach(context, needed, i)) break;
  open = await claimProven(context, open);
  const { look = [], leave = [] } = Object.groupBy(open, (edge) => (deservesLook(context, edge) ? 'look' : 'leave'));
  const again: Edge[] = [];
  await forEachConcurrent(context.concurrency, look, async (edge) => {
    context.signal.throwIfAborted();
    again.push(...(await lookAgain(context, edge)));
  });
  return { open: [...leave, ...(await claimProven(context, again))], silences };
}

/** Where the history of a service begins. Epoch ms. */
export interface Horizon {
  /** From here on, ticks are expected. */
  readonly from: number;
  /** The oldest and the latest tick that it showed of any symbol. */
  readonly oldest: number;
  readonly latest: number;
}

/** So many symbols must show nothing older. */
const horizonSymbols = 3;
/** Markets pause for a weekend and a holiday at most, in days. */
const pauseDaysMax = 3;

/**
 * Looks for the oldest tick that the service shows in this run, if none is near the start of what is wanted: the fullest symbols
 * are asked for the time before it, with that tick as the end. Resolves to the next midnight, because the horizon moves on, or to
 * null: there is none, or none is known. A refusal and few symbols show none.
 * @param wanted start of the windows that were requested, epoch ms
 * @throws UpstreamError if a request failed otherwise, so that another night must ask
 * @param known the oldest tick of a collection that was cut off and that this one continues; Infinity if there is none
 */
export async function findHorizon(context: ProofContext, wanted: number, known: number): Promise<Horizon | null> {
  const { night } = context;
  const oldest = night.shown.reduce((min, { shown }) => Math.min(min, shown.first!), known);
  if (oldest - wanted <= dayMs) return null;
  // What opened then has nothing before on any service.
  const older = [...new Set(night.shown.map(({ symbol }) => symbol))].filter(
    (symbol) => (context.getSymbol(symbol).opensAt ?? wanted) < oldest - dayMs,
  );
  if (older.length < horizonSymbols) return null;
  const byCount = older.sort((a, b) => night.countTicks(b) - night.countTicks(a));
  // Each day apart as well: markets pause, and some servers read no further than to a day without data.
  const days = Array.from({ length: pauseDaysMax + 1 }, (_, n) => Math.floor(oldest / dayMs - n) * dayMs);
  const before = { from: wanted, to: oldest };
  const windows = [before, ...days.flatMap((to) => intersect([before], [{ from: to - dayMs, to }]))];
  for (const symbol of byCount.slice(0, horizonSymbols))
    for (const window of windows) {
      const o = await requestMore(context, symbol, window, window, ['refused']);
      if (!o || o.received > 0) return null;
    }
  const latest = night.shown.reduce((max, { shown }) => Math.max(max, shown.last!), Number.NEGATIVE_INFINITY);
  return { from: Math.ceil(oldest / dayMs) * dayMs, oldest, latest };
}

/** The last UTC midnight at least `settleMs` before a response: later ticks may still come late. */
export const computeCut = (observedAt: number, settleMs: number): number =>
  Math.floor((observedAt - settleMs) / dayMs) * dayMs;

/** Splits a claim at the cut of its response: what is later is only inferred, between two ticks as well. */
export function cutClaim<T extends Omit<CoveredWindow, 'origin'>>(claim: T, settleMs: number): T[] {
  if (!isProven(claim)) return [claim];
  const cut = Math.max(claim.from, computeCut(claim.fetchedAt, settleMs));
  const pieces = [
    { ...claim, to: Math.min(claim.to, cut) },
    { ...claim, from: cut, evidence: 'inferred' as const },
  ];
  return pieces.filter((piece) => !isEmpty(piece));
}

/** The part of an edge that a response of its time can prove. */
function findProvable({ window, observedAt }: Edge, settleMs: number): Window {
  return intersectTwo(window, { from: Number.NEGATIVE_INFINITY, to: computeCut(observedAt, settleMs) });
}

/** Claims what is proven of each edge. Resolves to those of which a part is not. */
async function claimProven(context: ProofContext, edges: readonly Edge[]): Promise<Edge[]> {
  const open: Edge[] = [];
  for (const edge of edges) {
    const proven = proveEdge(edge, bound(context, edge));
    const provable = findProvable(edge, context.settleMs);
    const isWhole = proven.from <= provable.from && proven.to >= provable.to;
    if (!isEmpty(provable) && !isWhole) open.push(edge);
    if (isEmpty(proven) || (await hasKnownTick(context, edge, intersectTwo(proven, provable)))) continue;
    await claimWindow(context, edge.symbol, proven, edge.observedAt, 'confirmed');
  }
  return open;
}

/** Whether a symbol was requested from a time until an hour ago: only then it is known how many rows it has. @param own by this run */
function isCounted(of: Pick<ProofContext, 'night' | 'getCoverage'>, name: string, w: Window, own: Night['requested']) {
  const earlier = subtract(of.getCoverage(name), of.night.requested.get(name) ?? []);
  return covers(union([...earlier, ...(own.get(name) ?? [])]), { from: w.from, to: w.to - hourMs });
}

function bound(context: ProofContext, edge: Edge): ReturnType<typeof boundEdge> {
  const { night, getSymbol, origin } = context;
  const { symbol, shown } = edge;
  const { first, count, observedAt } = getSymbol(symbol);
  // What a poll has before its first known tick, an earlier one requested.
  const isOld = origin === 'poll' && first !== null && first === shown.first;
  // What came before that response, it may not have shown.
  const hasGrown = isOld && observedAt !== null && night.findLastFrom(symbol, first) > observedAt;
  const isKnown =
    edge.side === 'after' || isCounted(context, symbol, { from: shown.first!, to: edge.observedAt }, night.showed);
  const knownCount = isKnown ? Math.max(night.countTicks(symbol), count) : Number.POSITIVE_INFINITY;
  return boundEdge(edge, night.witness(symbol, shown), knownCount, hasGrown);
}

/** Whether the archive has a tick that the response did not show beyond its edge, in a window before the cut. */
async function hasKnownTick(context: ProofContext, { symbol, side, shown }: Edge, window: Window): Promise<boolean> {
  const beyond =
    side === 'after'
      ? { from: shown.last! + 1, to: window.to }
      : { from: window.from, to: Math.min(window.to, shown.first!) };
  const { last } = context.getSymbol(symbol);
  if (last === null || last < beyond.from) return false;
  const tick = await context.findTick(symbol, beyond.to - 1);
  return tick !== null && tick >= beyond.from;
}

/** Whether one more request from the shown tick on can prove more: the server reaches further, and bridges the silence. */
function deservesLook(context: ProofContext, edge: Edge): boolean {
  const { firstSeen, provenTo } = context.getSymbol(edge.symbol);
  const since = edge.side === 'after' ? provenTo : edge.window.to;
  if (context.origin === 'poll' && !isLookDue(Math.max(since, firstSeen), edge.observedAt)) return false;
  const provable = findProvable(edge, context.settleMs);
  const { reach, bridge } = bound(context, edge);
  const { from, to } = edge.window;
  const possible = intersectTwo(
    provable,
    edge.side === 'after' ? { from, to: Math.min(reach, bridge) } : { from: Math.max(reach, bridge), to },
  );
  return !isEmpty(possible);
}

/** Requests an edge again, from its tick on: a response of few ticks, hours and days. */
async function lookAgain(context: ProofContext, { symbol, side, window, shown }: Edge): Promise<Edge[]> {
  const tick = side === 'after' ? shown.last! : shown.first!;
  const requested = side === 'after' ? { from: tick, to: window.to } : { from: window.from, to: tick + 1 };
  const o = await requestContaining(context, symbol, requested, tick, requested);
  if (!o || o.countBefore > 1 || o.countAfter > 1) return [];
  const outermost = side === 'after' ? o.times.at(-1)! : o.times[0]!;
  // A row cap may have cut it within the millisecond at its end.
  await claimWindow(context, symbol, { from: o.times[0]! + 1, to: o.times.at(-1)! }, o.observedAt, 'confirmed');
  // What it shows beyond the edge may be cut by rows; that it shows fewer ticks than before means that it is not.
  const isUncapped = o.received < pageCapMin || (outermost === tick && o.received < shown.count);
  const rest =
    side === 'after'
      ? { from: outermost, to: Math.min(window.to, o.observedAt) }
      : { from: window.from, to: outermost + 1 };
  return isEmpty(rest) ? [] : [{ symbol, side, window: rest, shown: o.shown, isUncapped, observedAt: o.observedAt }];
}

/** Requests a window with a tick at its end. If the response lacks it, the server may round to a grid: it is asked on one. */
async function requestContaining(
  context: ProofContext,
  symbol: string,
  window: Window,
  tick: number,
  kept: Window | undefined,
): Promise<Observation | null | undefined> {
  const { behavior } = context;
  const first = await requestMore(context, symbol, window, kept);
  if (!first || first.times.includes(tick)) return first;
  if (behavior.gridMs > 1 || behavior.gridSearchesLeft-- <= 0) return null;
  for (const grid of grids) {
    const o = await requestMore(context, symbol, widenToGrid(window, grid), kept);
    if (!o?.times.includes(tick)) continue;
    behavior.gridMs = grid;
    await checkGrid(context, [{ symbol, tick }]);
    return o;
  }
  return null;
}

/**
 * Gives the grid up if a request for the millisecond of a tick inside of it brings the tick: the server does not round, and what it
 * lacked before had come late.
 */
async function checkGrid(
  context: ProofContext,
  ticks: readonly { readonly symbol: string; readonly tick: number }[],
): Promise<void> {
  const { behavior } = context;
  const { gridMs } = behavior;
  const one = ticks.find(({ tick }) => tick % gridMs > 1 && tick % gridMs < gridMs - 1);
  if (one === undefined) return;
  behavior.gridMs = 1;
  const moment = { from: one.tick, to: one.tick + 1 };
  const o = await requestMore(context, one.symbol, moment, moment);
  if (!o?.times.includes(one.tick)) behavior.gridMs = gridMs;
}

/**
 * Requests the longest silences that earlier nights showed, where this one shows none as long: how far the server answers across
 * a silence between two ticks, and how much emptiness it passes before a first tick and after a last one. Resolves to those of
 * which it got no answer, or in whose place the night has none: a shorter one does not replace them.
 */
async function requestSilences(context: ProofContext): Promise<Silences> {
  const { night, clock, knownSilences } = context;
  const unanswered = { ...knownSilences };
  const to = clock.nowMs();
  for (const kind of ['bridge', 'lead', 'trail'] as const) {
    const silence = pickLonger(night.silences, knownSilences)[kind];
    if (silence === null || silence === night.silences[kind]) continue;
    // Few ticks, which no row cap cuts: up to the first one after a silence, or from the last one before it.
    const lead = { from: Math.ceil(silence.from / dayMs) * dayMs, to: silence.to + 1 };
    const o =
      kind === 'lead'
        ? await requestContaining(context, silence.symbol, lead, silence.to, undefined)
        : await requestMore(context, silence.symbol, { from: silence.from, to });
    if (o !== undefined && night.silences[kind] !== null) unanswered[kind] = null;
  }
  return unanswered;
}

/**
 * The time across which open edges and empty responses need a witness, and whether they need one that shows a tick before it. Empty
 * responses are measured by the longest silences of the night, which count as far as a witness of their own request reaches.
 */
function findNeededReach({ shown }: Night, open: readonly Edge[], empties: readonly EmptyResponse[]) {
  const edges = open.map(({ side, shown, window }) => ({ side, from: shown.from, to: window.to }));
  const silent = empties.length === 0 ? [] : shown.filter((one) => !mayBeCapped(one.shown)).map((one) => one.shown);
  const trail = silent.toSorted((a, b) => b.to - b.last! - (a.to - a.last!))[0];
  const lead = silent.toSorted((a, b) => b.first! - b.from - (a.first! - a.from))[0];
  const all = [...edges, ...empties, ...[trail, lead].filter((one) => one !== undefined)];
  return {
    from: all.reduce((min, { from }) => Math.min(min, from), Number.POSITIVE_INFINITY),
    to: all.reduce((max, { to }) => Math.max(max, to), Number.NEGATIVE_INFINITY),
    isFromStart: lead !== undefined || open.some(({ side }) => side === 'before'),
  };
}

/**
 * Requests a symbol with few ticks that has one near the end of the needed time. Resolves to whether nothing more is to be shown so.
 */
async function requestReach(
  context: ProofContext,
  needed: ReturnType<typeof findNeededReach>,
  nth: number,
): Promise<boolean> {
  const { night, clock } = context;
  const now = clock.nowMs();
  const latest = Math.min(needed.to, computeCut(now, context.settleMs));
  const isLate = ({ last }: Shown): boolean => last! >= latest;
  const isShownLate = night.shown.some(({ shown }) => shown.from <= needed.from && isLate(shown));
  const isShownEarly = night.shown.some(({ shown }) => shown.to >= needed.to && shown.first! <= needed.from);
  if (isShownLate && (isShownEarly || !needed.isFromStart)) return true;
  const byLast = [...night.shown].sort(
    (a, b) => Number(isLate(b.shown)) - Number(isLate(a.shown)) || countPerDay(a.shown) - countPerDay(b.shown),
  );
  const symbol = [...new Set(byLast.map((one) => one.symbol))][nth];
  if (symbol === undefined) return true;
  // Another start each night: a server that thins out then shows other ticks.
  const from = needed.from - ((Math.floor(now / dayMs) + 5 * nth) % 24) * hourMs;
  await requestMore(context, symbol, { from, to: Math.min(now, needed.to) });
  return false;
}

const countPerDay = ({ count, from, to }: Shown): number => count / Math.max(hourMs, to - from);

/**
 * Sends a request that only proves more. Resolves to null if it was refused, to undefined if it failed: what is collected stays.
 * @param kept of which part the ticks are kept; default: what is covered already, so that no lifetime grows by them
 */
async function requestMore(
  context: ProofContext,
  symbol: string,
  window: Window,
  kept = intersect([window], context.getCoverage(symbol)).at(-1) ?? { from: window.to, to: window.to },
  endured: readonly UpstreamError['failure'][] = ['refused', 'unreachable', 'transient'],
): Promise<Observation | null | undefined> {
  try {
    return await requestWindow(context, symbol, kept, window);
  } catch (error) {
    if (error instanceof UpstreamError && endured.includes(error.failure))
      return error.failure === 'refused' ? null : undefined;
    throw error;
  }
}

/** The pieces by symbol in which unproven windows are to be requested again: as far as answers reach, or as empty as three nights prove. */
export function planPieces(context: ProofContext, open: readonly Edge[], empties: readonly EmptyResponse[]) {
  const unproven = [...open.map(({ symbol, window }) => ({ symbol, ...window })), ...empties];
  const empty = Map.groupBy(context.origin === 'poll' ? splitEmpties(context, empties) : [], ({ symbol }) => symbol);
  const pieces = new Map<string, readonly Window[]>(empty);
  for (const [symbol, windows] of Map.groupBy(unproven, ({ symbol }) => symbol)) {
    const split = union(windows).map((window) => splitToReach(context.behavior, window));
    const reached = split.filter(({ length }) => length > 1).flat();
    if (reached.length > 0) pieces.set(symbol, reached);
  }
  return pieces;
}

/** At most so many pieces of a window that came back empty are requested, the latest ones. */
const emptyPiecesMax = 4;

/**
 * Pieces of the windows that came back empty and that no more than their middle is supported of: as many days as witnesses passed
 * without a tick, so that three nights prove all of them.
 */
function splitEmpties(context: ProofContext, empties: readonly EmptyResponse[]) {
  const supports = Map.groupBy(findSupports(context, empties), ({ symbol }) => symbol);
  return empties.flatMap(({ symbol, from, to, observedAt }) => {
    const { before, after, earliest, latest } = context.night.witness(symbol, { from, to });
    const days = Math.min(before.days, after.days);
    const window = {
      from: Math.max(from, earliest),
      to: Math.min(to, latest, computeCut(observedAt, context.settleMs)),
    };
    const { provenTo, firstSeen } = context.getSymbol(symbol);
    if (days === 0 || isEmpty(window) || !isLookDue(Math.max(Math.min(provenTo, from), firstSeen), observedAt))
      return [];
    const open = subtract([window], supports.get(symbol) ?? []);
    const pieces = splitWindow(window, days * dayMs).filter((piece) => intersect([piece], open).length > 0);
    return pieces.length === 1 ? [] : pieces.slice(-emptyPiecesMax).map((piece) => ({ symbol, ...piece }));
  });
}

/** What empty responses support. */
export function findSupports(
  context: Pick<ProofContext, 'night' | 'getSymbol' | 'getCoverage' | 'settleMs'>,
  empties: readonly EmptyResponse[],
): EmptyWindow[] {
  const { night, getSymbol, settleMs } = context;
  if (night.isSick()) return [];
  // The answers to a symbol of which one lacks a known tick are false.
  const lacks = ({ symbol, from, to, lacksKnownTick }: EmptyResponse, { first, last } = getSymbol(symbol)): boolean =>
    lacksKnownTick || (last !== null && last >= from && (first ?? last) < to);
  const denied = new Set(empties.filter((empty) => lacks(empty)).map(({ symbol }) => symbol));
  return empties.flatMap(({ symbol, observedAt, from, to, hasOthers, sent }) => {
    if (hasOthers || denied.has(symbol)) return [];
    const { first, count } = getSymbol(symbol);
    const witnessed = night.witness(symbol, { from, to });
    // A store of each symbol's last rows has nothing before the oldest one, which this night may be the first to show.
    const isKnown = isCounted(context, symbol, { from: to, to: observedAt }, night.requested);
    const isKept = isKnown && witnessed.mostTicks >= 2 * Math.max(night.countTicks(symbol), count);
    const since = isKept ? from : Math.max(from, first ?? to);
    const support = findSupport({ from: since, to: Math.min(to, observedAt - settleMs) }, sent, observedAt, witnessed);
    return support === null ? [] : [{ symbol, observedAt, ...support }];
  });
}
