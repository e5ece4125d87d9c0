import { isProven } from '../../archive/format/coverage.ts';
import type { EmptyWindow } from '../../archive/journal/empty-responses.ts';
import type { TickRecord } from '../../archive/journal/journal.ts';
import { UpstreamError } from '../../base/errors.ts';
import { forEachConcurrent } from '../../base/for-each-concurrent.ts';
import { intersect, isWithin, subtract, union, type Window } from '../../base/window.ts';
import type { StatedCoverage, Upstream } from '../../client/upstream.ts';
import type { Edge } from '../proof/proven.ts';
import { noSilences, pickLonger, type Silences } from '../proof/shown.ts';
import { createCircuitBreaker } from './circuit-breaker.ts';
import {
  contradictionReason,
  defaultFetchOptions,
  joinUnservedWindows,
  staleReason,
  statedGapReason,
  toStatedGap,
} from './fetch-steps.ts';
import { claimWindow, createEmptyRecord, type EmptyResponse, type FetchOutcome, fetchSymbol } from './fetch-symbol.ts';
import { type SymbolPlan, toFetchPlans } from './plan.ts';
import {
  cutClaim,
  findHorizon,
  findSupports,
  type Horizon,
  type ProofContext,
  planPieces,
  proveEdges,
} from './prove-coverage.ts';
import { noteReach } from './server-behavior.ts';

export interface FetchFailure extends Window {
  readonly symbol: string;
  readonly reason: string;
  /** Whether the window lies before the start of the service's history. */
  readonly isTooOld?: boolean;
}

export interface TickCollectOutcome {
  /** Symbols whose windows were all requested. Symbols interrupted by the signal are neither done nor failed. */
  readonly done: readonly string[];
  /** Symbols with at least one failed request. */
  readonly failed: readonly string[];
  readonly failures: readonly FetchFailure[];
  /** Symbols that got at least one response, and symbols that the service does not know. */
  readonly answered: readonly string[];
  readonly unknown: readonly string[];
  /** Failures without a failed request: the service states, or shows, that it has no data for the window. */
  readonly notServed: ReadonlySet<FetchFailure>;
  /** Symbols whose history on the service begins after the requested start `since`. `from`: where it begins, epoch ms. */
  readonly shortHistories: readonly { readonly symbol: string; readonly since: number; readonly from: number }[];
  /**
   * Windows at the end of a poll for which the service has no data yet. They do not count as a failure of the symbol.
   */
  readonly behind: readonly FetchFailure[];
  /** What empty responses support, on the way to three nights. */
  readonly supports: readonly EmptyWindow[];
  /** The longest silences that it showed, and longer ones of earlier nights of which it got no answer. */
  readonly silences: Silences;
  /** Set if the service has nothing older of any symbol. */
  readonly horizon: Horizon | null;
  /** Why it is not known whether it has; null: it is known, or it cannot be. */
  readonly horizonError: string | null;
  /** Why the collection stopped early: the credential was refused, or the upstream was unreachable or failed for too long. */
  readonly stopError: UpstreamError | null;
}

export interface TickCollectContext extends ProofContext {
  /** Whether windows are requested in pieces if answers reach less. */
  readonly pieces: boolean;
  /** The upstream, if it is an oddslake that is mirrored: its claims are taken over, and none are made. */
  readonly mirror?: Pick<Upstream, 'coverage'> | undefined;
  /** Makes all appended records durable. */
  drain(): Promise<void>;
  /** A symbol is finished; `done` are. */
  onSymbol(done: number, symbol: string): void;
}

/**
 * Fetches the plans concurrently. A symbol that fails does not stop the others. If the signal aborts, returns what is done
 * so far; the caller throws.
 */
export async function collectTicks(
  context: TickCollectContext,
  plans: readonly SymbolPlan[],
): Promise<TickCollectOutcome> {
  const collection = new TickCollection(context, plans);
  await collection.fetchAll();
  return collection.summarize();
}

/** What a collection has found so far of the symbols of its plans. */
class TickCollection {
  readonly #plans: readonly SymbolPlan[];
  readonly #byName: ReadonlyMap<string, SymbolPlan>;
  readonly #context: TickCollectContext;
  readonly #breaker: ReturnType<typeof createCircuitBreaker>;
  readonly #answered = new Set<string>();
  readonly #unknown = new Set<string>();
  readonly #failed = new Set<string>();
  readonly #reasons = new Map<string, string>();
  readonly #lost: FetchFailure[] = [];
  readonly #reached = new Set<string>();
  readonly #edges: Edge[] = [];
  readonly #answeredEmpty: EmptyResponse[] = [];
  #empties: EmptyResponse[] = [];
  #stopError: UpstreamError | null = null;
  /** What no finished collection covered before, of the first polls and backfills. */
  readonly #wanted = new Map<string, readonly Window[]>();
  /** The oldest tick that the service showed of the symbols that another collection began, which was cut off. */
  #oldestKnown = Number.POSITIVE_INFINITY;
  #horizon: Horizon | null = null;
  #horizonError: string | null = null;
  #knownSilences: Silences;
  /** The windows without their margin, of plans that have one. */
  readonly #kept = new Map<string, readonly Window[]>();
  readonly #mirrored = new Map<string, Mirrored>();

  constructor(context: TickCollectContext, plans: readonly SymbolPlan[]) {
    const breaker = createCircuitBreaker(context.clock);
    this.#plans = plans;
    this.#knownSilences = context.knownSilences;
    this.#byName = new Map(plans.map((plan) => [plan.symbol, plan]));
    this.#breaker = breaker;
    for (const { symbol, windows, isFirst, tail, hasMargin } of plans) {
      if (hasMargin === true) this.#kept.set(symbol, windows);
      const coverage = isFirst ? [] : context.getCoverage(symbol);
      const unjudged = isFirst ? [] : context.getUnjudged(symbol);
      const judged = unjudged.length === 0 ? coverage : subtract(coverage, unjudged);
      if (tail !== undefined && judged.length > 0) continue;
      const wanted = subtract(union([...windows, ...unjudged]), judged);
      if (wanted.length > 0) this.#wanted.set(symbol, wanted);
      if (unjudged.length === 0) continue;
      // What files brought, the service need not have shown.
      const shown = unjudged.find(isProven)?.from ?? context.getSymbol(symbol).first;
      this.#oldestKnown = Math.min(this.#oldestKnown, shown ?? this.#oldestKnown);
    }
    this.#context = {
      ...context,
      keptOf: (symbol) => this.#kept.get(symbol),
      append: (record) => {
        const { covered, ...rest } = keepInside(record, this.#kept.get(record.symbol));
        const mirrored = this.#mirrored.get(record.symbol);
        const own = mirrored && mirrorClaims(mirrored, covered);
        // A run in which a response left out a known tick proves nothing.
        const settleMs = context.night.omission === null ? context.settleMs : Number.POSITIVE_INFINITY;
        const isStated = own !== undefined && context.night.omission === null;
        const claims = isStated ? own : (own ?? covered).flatMap((w) => cutClaim(w, settleMs));
        return context.append({ ...rest, covered: claims });
      },
      upstream: {
        ticks: async (query, signal) => {
          const page = await breaker.trackRequest(() => context.upstream.ticks(query, signal));
          this.#answered.add(query.symbol);
          return page;
        },
      },
    };
  }

  async fetchAll(): Promise<void> {
    const context = this.#context;
    let done = 0;
    const begun = context.clock.nowMs();
    await forEachConcurrent(context.concurrency, this.#plans, async (plan) => {
      const { symbol } = plan;
      if (await this.#attempt(symbol, (ownEmpties) => this.#fetch(plan, begun, ownEmpties)))
        context.onSymbol(++done, symbol);
      if (this.#empties.length >= pendingEmptiesMax) await this.#judgeEmpties();
    });
    await this.#judgeEmpties();
    await context.drain();
    if (this.#stopError === null && !context.signal.aborted && context.mirror === undefined) {
      const { open, silences } = await proveEdges(context, this.#edges, this.#answeredEmpty);
      this.#knownSilences = silences;
      noteReach(context.behavior, context.night.measureReach());
      if (context.pieces && !Number.isFinite(context.behavior.windowMsMax))
        await this.#fetchInPieces(planPieces(context, open, this.#answeredEmpty));
      await this.#expire().catch((error: unknown) => {
        if (!(error instanceof UpstreamError) || error.failure === 'credential') throw error;
        this.#horizonError = error.reason;
      });
    }
    await context.drain();
    // There may have been no second symbol to try.
    if (this.#breaker.countResponses() === 0) this.#stopError ??= this.#breaker.getUnreachableError();
  }

  /** Requests again what one response cannot reach or prove. */
  async #fetchInPieces(pieces: ReadonlyMap<string, readonly Window[]>): Promise<void> {
    const context = this.#context;
    this.#edges.length = 0;
    await forEachConcurrent(context.concurrency, [...pieces], async ([symbol, windows]) => {
      const plans = windows.map((window) => ({ ...window, options: defaultFetchOptions }));
      await this.#attempt(symbol, (ownEmpties) => fetchSymbol(context, symbol, plans, ownEmpties));
    });
    await this.#judgeEmpties();
    await context.drain();
    await proveEdges({ ...context, knownSilences: noSilences }, this.#edges, []);
  }

  async #fetch(plan: SymbolPlan, begun: number, empties: EmptyResponse[]): Promise<FetchOutcome> {
    const context = this.#context;
    const { symbol } = plan;
    const windows = toFetchPlans(plan, begun);
    const { mirror, signal } = context;
    if (mirror === undefined || windows.length === 0) return await fetchSymbol(context, symbol, windows, empties);
    // Before the ticks: what the upstream publishes meanwhile may have others.
    const query = { symbol, from: windows[0]!.from, to: windows.at(-1)!.to };
    const covered = await this.#breaker
      .trackRequest(() => mirror.coverage(query, signal))
      .catch((error: unknown) => {
        // Whether the symbol is unknown, its ticks say.
        if (error instanceof UpstreamError && error.failure === 'refused') return error;
        throw error;
      });
    const mirrored: Mirrored = { covered: covered instanceof UpstreamError ? [] : covered, fetched: [] };
    this.#mirrored.set(symbol, mirrored);
    const silent: EmptyResponse[] = [];
    const { lost } = await fetchSymbol(context, symbol, windows, silent);
    for (const empty of silent) await claimWindow(context, symbol, empty, empty.observedAt, 'inferred');
    if (covered instanceof UpstreamError) throw covered;
    const unstated = subtract(union(mirrored.fetched), covered).map(toStatedGap);
    const served = lost.map((window) => (window.reason === staleReason ? toStatedGap(window) : window));
    return { empties: [], edges: [], lost: joinUnservedWindows([...served, ...unstated]) };
  }

  /** Resolves to whether the work was attempted. */
  #attempt(symbol: string, task: FetchTask): Promise<boolean> {
    return this.#breaker.attempt(
      () => this.#stopError === null && !this.#context.signal.aborted,
      (isAlone) => this.#fetchOnce(symbol, task, isAlone),
    );
  }

  /** The parts of a window that are kept of it. */
  #clip(symbol: string, window: Window): readonly Window[] {
    const kept = this.#kept.get(symbol);
    return kept === undefined ? [window] : intersect([window], kept);
  }

  async #fetchOnce(symbol: string, task: FetchTask, isAlone: boolean): Promise<void> {
    const { signal } = this.#context;
    const responsesBefore = this.#breaker.countResponses();
    const ownEmpties: EmptyResponse[] = [];
    try {
      const outcome = await task(ownEmpties);
      const clip = (window: Window): readonly Window[] => this.#clip(symbol, window);
      for (const lost of outcome.lost) for (const part of clip(lost)) this.#lost.push({ symbol, ...lost, ...part });
      for (const edge of outcome.edges) for (const window of clip(edge.window)) this.#edges.push({ ...edge, window });
      this.#reached.add(symbol);
    } catch (error) {
      if (signal.aborted && error === signal.reason) return;
      if (!(error instanceof UpstreamError)) throw error;
      const isSilent = error.failure === 'unreachable' && this.#breaker.countResponses() === responsesBefore;
      if (error.failure === 'credential' || (isAlone && isSilent) || this.#breaker.isOpen()) this.#stopError ??= error;
      this.#failed.add(symbol);
      // The text of the response contains the symbol as it was requested.
      if (isUnknownSymbolError(error, error.symbol ?? symbol)) this.#unknown.add(symbol);
      this.#reasons.set(symbol, error.reason);
    } finally {
      for (const empty of ownEmpties) this.#empties.push(empty);
    }
  }

  /** Empty responses count as coverage only if the service still returns ticks for symbols that had ticks. */
  async #judgeEmpties(): Promise<void> {
    const batch = this.#empties;
    this.#empties = [];
    const symbolsWithoutKnownTick = new Set(
      batch.filter(({ lacksKnownTick }) => lacksKnownTick).map(({ symbol }) => symbol),
    );
    const knownSymbols = this.#plans.filter(({ tail }) => tail !== undefined && tail.knownTick !== null).length;
    const isOutage =
      symbolsWithoutKnownTick.size >= outageSymbolsMin && symbolsWithoutKnownTick.size * 2 >= knownSymbols;
    for (const { symbol, from, to, observedAt } of batch) {
      if (isOutage)
        for (const part of this.#clip(symbol, { from, to })) this.#lost.push({ symbol, ...part, reason: outageReason });
      else await claimWindow(this.#context, symbol, { from, to }, observedAt, 'inferred');
    }
    if (!isOutage) for (const empty of batch) this.#answeredEmpty.push(empty);
  }

  /**
   * Takes back what this collection claimed before the horizon of the service, of windows that nothing covered before. Dated before
   * them: what other archives have of them stays.
   */
  async #expire(): Promise<void> {
    const context = this.#context;
    // Where the history of these begins, the service itself says.
    const stated = new Set(this.#lost.filter(({ isTooOld }) => isTooOld === true).map(({ symbol }) => symbol));
    const wanted = [...this.#wanted].filter(
      ([symbol]) => this.#answered.has(symbol) && !this.#failed.has(symbol) && !stated.has(symbol),
    );
    const from = wanted.reduce((min, [, windows]) => Math.min(min, windows[0]!.from), Number.POSITIVE_INFINITY);
    const horizon = wanted.length === 0 ? null : await findHorizon(context, from, this.#oldestKnown);
    if (horizon !== null && context.night.omission !== null) this.#horizonError = contradictionReason;
    if (horizon === null || this.#horizonError !== null) return;
    this.#horizon = horizon;
    for (const [symbol, windows] of wanted) {
      const withdrawn = intersect(windows, [{ from: Number.NEGATIVE_INFINITY, to: horizon.from }]);
      if (withdrawn.length === 0) continue;
      const span = { from: withdrawn[0]!.from, to: withdrawn.at(-1)!.to };
      await context.append({ ...createEmptyRecord(context, symbol, span, span.from), withdrawn });
      const reason = 'the service has nothing as old of any symbol';
      for (const { from, to } of withdrawn) this.#lost.push({ symbol, from, to, reason, isTooOld: true });
    }
  }

  /** Call it after `fetchAll`: coverage is final only then. */
  summarize(): TickCollectOutcome {
    const context = this.#context;
    const byName = this.#byName;
    const failures: FetchFailure[] = [];
    for (const [symbol, reason] of this.#reasons)
      for (const window of listUncovered(context, byName.get(symbol)!, reason)) failures.push(window);
    const beforeHistory = new Set(this.#lost.filter((w) => isBeforeServedHistory(context, byName.get(w.symbol)!, w)));
    const behind = new Set(
      this.#lost.filter((w) => !beforeHistory.has(w) && isNotYetServed(context, byName.get(w.symbol)!, w)),
    );
    const notServed = new Set(this.#lost.filter((w) => !beforeHistory.has(w) && !behind.has(w)));
    for (const w of notServed) failures.push(w);
    if (this.#stopError !== null) {
      for (const plan of this.#plans) {
        if (this.#failed.has(plan.symbol) || this.#reached.has(plan.symbol)) continue;
        for (const window of listUncovered(context, plan, this.#stopError.reason)) failures.push(window);
        this.#failed.add(plan.symbol);
      }
    }
    return {
      done: [...byName.keys()].filter((symbol) => this.#reached.has(symbol) && !this.#failed.has(symbol)),
      failed: [...this.#failed],
      failures,
      answered: [...this.#answered],
      // A symbol with a response is not unknown.
      unknown: [...this.#unknown].filter((symbol) => !this.#answered.has(symbol)),
      notServed,
      shortHistories: [...Map.groupBy(beforeHistory, ({ symbol }) => symbol)].map(([symbol, windows]) => ({
        symbol,
        since: windows.reduce((earliest, { from }) => Math.min(earliest, from), Number.POSITIVE_INFINITY),
        from: windows.reduce((latest, { to }) => Math.max(latest, to), Number.NEGATIVE_INFINITY),
      })),
      behind: [...behind],
      supports: findSupports(context, this.#answeredEmpty).flatMap((support) =>
        this.#clip(support.symbol, support).map((part) => ({ ...support, ...part })),
      ),
      silences: pickLonger(context.night.silences, this.#knownSilences),
      horizon: this.#horizon,
      horizonError: this.#horizonError,
      stopError: this.#stopError,
    };
  }
}

/** What an oddslake covers of a symbol, as it stated before its ticks were requested, and what was fetched since. */
interface Mirrored {
  readonly covered: readonly StatedCoverage[];
  readonly fetched: Window[];
}

/** What the upstream covers of the windows that a response would claim. Notes that they were fetched. */
function mirrorClaims({ covered, fetched }: Mirrored, claims: readonly StatedCoverage[]): StatedCoverage[] {
  const windows = union(claims);
  fetched.push(...windows);
  // Whatever the clock of the upstream says, no claim is later than the response with its ticks.
  const latest = claims.reduce((min, { fetchedAt }) => Math.min(min, fetchedAt), Number.POSITIVE_INFINITY);
  return covered.flatMap((claim) =>
    intersect([claim], windows).map((part) => ({ ...claim, ...part, fetchedAt: Math.min(claim.fetchedAt, latest) })),
  );
}

/** What a record has inside of the windows of a plan, without their margin. */
function keepInside(record: TickRecord, kept: readonly Window[] | undefined): TickRecord {
  if (kept === undefined) return record;
  const { t, p } = record.ticks;
  const isKept = (time: number): boolean => kept.some((window) => isWithin(time, window));
  const covered = record.covered.flatMap((claim) => intersect([claim], kept).map((part) => ({ ...claim, ...part })));
  const ticks = { t: t.filter(isKept), p: p.filter((_, i) => isKept(t[i]!)) };
  return { ...record, ticks, covered };
}

/** Fetches windows of a symbol and appends empty responses to the list as they arrive. */
type FetchTask = (empties: EmptyResponse[]) => Promise<FetchOutcome>;

/** Number of pending empty responses at which they are judged as a batch. */
const pendingEmptiesMax = 4096;

/**
 * If at least this many symbols, and at least half of those with known ticks, get empty responses, the service is
 * assumed to have lost their data.
 */
const outageSymbolsMin = 3;

export const outageReason = 'the service returns no ticks for many symbols that had ticks';

/**
 * Whether a lost window lies before the start of the service's history for a symbol: later windows are covered, and no
 * earlier one ever was.
 */
function isBeforeServedHistory(context: TickCollectContext, plan: SymbolPlan, lost: FetchFailure): boolean {
  const [covered] = context.getCoverage(plan.symbol);
  const isBeforeAll = covered !== undefined && lost.to <= covered.from && context.night.omission === null;
  return isBeforeAll && (plan.isFirst || lost.isTooOld === true) && lost.from <= plan.windows[0]!.from;
}

/**
 * Whether the service may not have the window yet. For example, another archive serves only what it has polled so far.
 * A backfill states its end explicitly, so every missing window counts.
 */
const isNotYetServed = ({ origin }: TickCollectContext, { windows }: SymbolPlan, lost: FetchFailure): boolean =>
  origin === 'poll' && notYetServedReasons.includes(lost.reason) && lost.to >= windows.at(-1)!.to;

const notYetServedReasons: readonly string[] = [statedGapReason, staleReason];

/** The windows of a plan that are not covered. */
const listUncovered = (context: TickCollectContext, plan: SymbolPlan, reason: string): FetchFailure[] =>
  subtract(plan.windows, context.getCoverage(plan.symbol)).map((w) => ({
    symbol: plan.symbol,
    from: w.from,
    to: w.to,
    reason,
  }));

/** HTTP status codes that indicate an unknown resource, whatever the body says. */
const unknownStatuses: readonly (number | undefined)[] = [404, 410];

/**
 * Whether an error says that the service does not know the symbol: 404, 410, or a 400 whose text contains the symbol.
 * Other errors, such as an outage, are not evidence about the symbol.
 */
export const isUnknownSymbolError = (
  { status, reason }: Pick<UpstreamError, 'status' | 'reason'>,
  symbol: string,
): boolean => unknownStatuses.includes(status) || (status === 400 && containsSymbol(reason, symbol));

/** Whether a text contains the symbol as a separate word. A short symbol may be part of any word. */
function containsSymbol(text: string, symbol: string): boolean {
  // The reason quotes the response as JSON.
  const quoted = JSON.stringify(symbol).slice(1, -1);
  for (const word of new Set([symbol, quoted])) {
    for (let index = text.indexOf(word); index >= 0; index = text.indexOf(word, index + 1)) {
      const [before, after] = [text.slice(0, index).at(-1), text[index + word.length]];
      if (!isWordCharacter(before) && !isWordCharacter(after)) return true;
    }
  }
  return false;
}

const isWordCharacter = (character: string | undefined): boolean =>
  character !== undefined && /[\p{L}\p{N}]/u.test(character);
