import { setImmediate } from 'node:timers/promises';
import { readSymbol } from '../../archive/journal/symbols.ts';
import { type BacktestSpec, parseBacktestSpec } from '../../backtest/backtest-spec.ts';
import { InvalidBacktestError } from '../../backtest/invalid-backtest.ts';
import {
  failureMessages,
  isTooLarge,
  runBacktestInThread,
  toBacktestFailure,
} from '../../backtest/run/backtest-in-thread.ts';
import { resolveStrategy } from '../../backtest/run/resolve-strategy.ts';
import { bindGridPoints, type ResolvedStrategy } from '../../backtest/run/run-backtest.ts';
import type { Fault } from '../../backtest/strategy/json-validator.ts';
import { expandGrid } from '../../backtest/strategy/parse-strategy.ts';
import { BacktestRequest, BacktestResponse, KeptBacktest } from '../../contract/backtests.ts';
import { paths } from '../../contract/paths.ts';
import { CreatedHeaders, ObjectRequestHeaders } from '../../contract/strategies.ts';
import { requireUser } from '../auth/authenticate.ts';
import { toUntypedExchange } from '../exports/published-files.ts';
import type { App, ServiceContext } from '../http/context.ts';
import { createFairSemaphore } from '../http/fair-semaphore.ts';
import { ProblemError } from '../http/problem-details.ts';
import { createDisconnectSignal, toRequestError } from '../http/stream-response.ts';
import { toOwnerColumns } from '../workspace/owner.ts';
import { createStrategyStore } from '../workspace/strategies.ts';
import type { BacktestRow, OwnerColumns } from '../workspace/tables.ts';
import { type BacktestService, toBacktestUrl, toSavedBacktest } from './backtests.ts';
import { createIdempotencyConflictError, createObjectId, hashBody } from './user-resource.ts';

/** What is to be run. */
export interface ResolvedBacktest {
  readonly spec: BacktestSpec;
  readonly resolvedStrategy: ResolvedStrategy;
}

/** What a body says by itself. */
export interface ParsedBacktestBody {
  readonly spec: BacktestSpec;
  readonly save: boolean;
  /** As they came: what is asked has each of them once. */
  readonly symbols: readonly string[];
}

/** @throws ProblemError 400 that names every field at fault */
export function parseBacktestBody(body: unknown): ParsedBacktestBody {
  const { save, rest, faults } = splitSaveFlag(body);
  const read = parseBacktestSpec(rest);
  if ('faults' in read || faults.length > 0)
    throw createInvalidBacktestError([...('faults' in read ? read.faults : []), ...faults]);
  const { symbols } = rest as { readonly symbols?: readonly string[] | null };
  return { spec: read.asked, save, symbols: symbols ?? [] };
}

/**
 * Looks for the strategy and the symbols that are asked for.
 * @throws ProblemError 400 that names every field at fault
 */
export async function resolveBacktest(
  { archive, workspace }: ServiceContext,
  owner: OwnerColumns,
  { spec, symbols }: ParsedBacktestBody,
): Promise<ResolvedBacktest> {
  const kept = createStrategyStore(workspace.db);
  const one = await resolveStrategy(spec.entry_executable, (name, version) => kept.find(owner, name, version));
  if ('faults' in one) throw createInvalidBacktestError(one.faults);
  const unknown: Fault[] = [];
  await processInBatches([...symbols.entries()], (some) => {
    for (const [i, symbol] of some)
      if (readSymbol(archive.state.db, symbol) === undefined)
        unknown.push({ name: `symbols[${i}]`, reason: 'is no symbol that this archive knows' });
  });
  if (unknown.length > 0) throw createInvalidBacktestError(unknown);
  try {
    await processInBatches(expandGrid(spec.grid), (some) => void bindGridPoints(some, spec, one.found));
  } catch (error) {
    throw error instanceof InvalidBacktestError ? createInvalidBacktestError(error.faults) : error;
  }
  return { spec, resolvedStrategy: one.found };
}

/** What one request may ask for takes longer than others should wait. */
async function processInBatches<T>(all: readonly T[], work: (some: readonly T[]) => void): Promise<void> {
  for (let i = 0; i < all.length; i += batchSize) {
    work(all.slice(i, i + batchSize));
    await setImmediate();
  }
}

const batchSize = 50;

function splitSaveFlag(body: unknown): { save: boolean; rest: object; faults: readonly Fault[] } {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw createInvalidBacktestError([{ name: '', reason: 'must be an object' }]);
  const { save = false, ...rest } = body as { save?: unknown };
  const faults = typeof save === 'boolean' ? [] : [{ name: 'save', reason: 'must be true or false' }];
  return { save: save === true, rest, faults };
}

/** A backtest that cannot be run as it was asked for. */
export const createInvalidBacktestError = (faults: readonly Fault[]): ProblemError =>
  new ProblemError(400, 'The backtest cannot be run as it is asked for.', {
    errors: faults.map(({ name, reason }) => ({ name: name === '' ? 'body' : name, reason })),
  });

/** Jobs whose ticks are counted at a time: each takes a thread. */
const countsConcurrentMax = 2;

/** Seconds: what somebody has to mend, or to make room for, takes its time. */
const retryAfter = { damaged: '600', full: '300' } as const;

/** What a request is known again by. */
interface IdempotentRequest {
  readonly key: string | null;
  readonly fingerprint: string;
}

/** Runs of one user that may wait to be answered at once. */
const waitingMax = 2;

/** `POST /api/v1/research/backtest`: a run that is answered at once, or a job whose result is kept. */
export function registerResearchRoutes(app: App, context: ServiceContext, { jobs, runner }: BacktestService): void {
  const { archive, clock, settings } = context;
  const {
    threads,
    ticksAtOnceMax,
    ticksJobMax,
    runSecondsMax,
    runsAtOnceMax,
    waitingMax: jobsMax,
    keptMax,
  } = settings.service.research;
  const running = createFairSemaphore(runsAtOnceMax, waitingMax);
  const counting = createFairSemaphore(countsConcurrentMax, jobsMax);
  const underWay = new Set<Promise<unknown>>();
  // Threads that read the archive are not to outlive it.
  app.addHook('onClose', async () => void (await Promise.allSettled(underWay)));

  app.post(
    paths.researchBacktest,
    {
      config: { access: 'research', problems: [422], body: BacktestRequest },
      schema: {
        summary: 'Runs a strategy against the archive; needs the scope research',
        tags: ['users'],
        headers: ObjectRequestHeaders,
        response: {
          200: BacktestResponse,
          202: {
            description: 'It is a job, or was made one under this Idempotency-Key before.',
            headers: CreatedHeaders,
            content: { 'application/json': { schema: KeptBacktest } },
          },
        },
      },
    },
    async (request, reply) => {
      const [asked, answer] = toUntypedExchange(request, reply);
      const user = requireUser(asked);
      const owner = toOwnerColumns(user);
      const body = parseBacktestBody(asked.body);
      if (body.save) {
        const named = { key: request.headers['idempotency-key'] ?? null, fingerprint: hashBody(asked.body) };
        const row = await kept(owner, body, named, createDisconnectSignal(answer, context.signal));
        runner.wake();
        return reply.code(202).header('location', toBacktestUrl(row)).send(toSavedBacktest(row));
      }
      const wanted = await resolveBacktest(context, owner, body);
      const signal = createDisconnectSignal(answer, context.signal);
      try {
        const result = await answeredAtOnce(owner.owner, wanted, signal);
        return { ...JSON.parse(result), generated_at: clock.nowMs() };
      } catch (error) {
        throw toRequestError(error, signal, context.signal);
      }
    },
  );

  /** The job that a request makes, or made before. */
  async function kept(
    owner: OwnerColumns,
    body: ParsedBacktestBody,
    named: IdempotentRequest,
    signal: AbortSignal,
  ): Promise<BacktestRow> {
    const { key, fingerprint } = named;
    // What was asked for then may be gone by now: that it was made is still to be told.
    const before = key === null ? null : await jobs.findByIdempotencyKey(owner, key);
    const row = before ?? (await added(owner, body, named, signal));
    if (row.body_sha256 !== fingerprint) throw createIdempotencyConflictError();
    return row;
  }

  async function added(
    owner: OwnerColumns,
    body: ParsedBacktestBody,
    named: IdempotentRequest,
    signal: AbortSignal,
  ): Promise<BacktestRow> {
    const { key, fingerprint } = named;
    const wanted = await resolveBacktest(context, owner, body);
    await requireSmall(owner.owner, wanted, signal);
    const { spec, resolvedStrategy } = wanted;
    const now = clock.nowMs();
    const backtest = {
      ...owner,
      id: createObjectId(context),
      idempotency_key: key,
      body_sha256: fingerprint,
      created_at: now,
      asked: JSON.stringify(spec),
      strategy: JSON.stringify(resolvedStrategy.strategy),
      strategy_version: resolvedStrategy.version,
    };
    const one = await jobs.add(backtest, jobsMax, keptMax);
    if (one === 'full') {
      throw new ProblemError(429, `You have ${jobsMax} backtests waiting or under way: let one of them end.`, {
        headers: { 'retry-after': '60' },
      });
    }
    return 'known' in one ? one.known : one;
  }

  async function requireSmall(user: string, wanted: ResolvedBacktest, signal: AbortSignal): Promise<void> {
    let leave: (() => void) | undefined;
    try {
      leave = await counting.forHolder(user).acquire(signal);
      const count = isTooLarge(archive, { ...wanted, ticksMax: ticksJobMax }, signal);
      underWay.add(count);
      if (!(await count.finally(() => underWay.delete(count)))) return;
    } catch (error) {
      throw toRequestError(error, signal, context.signal);
    } finally {
      leave?.();
    }
    throw new ProblemError(422, `${formatTicksMaxMessage(ticksJobMax)}: ask for less.`);
  }

  async function answeredAtOnce(
    user: string,
    { spec, resolvedStrategy }: ResolvedBacktest,
    signal: AbortSignal,
  ): Promise<string> {
    const leave = await running.forHolder(user).acquire(signal);
    const limit = AbortSignal.timeout(Math.ceil(runSecondsMax * 1000));
    try {
      const task = { spec, resolvedStrategy, threads, ticksMax: ticksAtOnceMax };
      const run = runBacktestInThread(archive, task, { signal: AbortSignal.any([signal, limit]), progress() {} });
      underWay.add(run);
      return (await run.finally(() => underWay.delete(run))).result;
    } catch (error) {
      signal.throwIfAborted();
      throw limit.aborted ? tooLong() : problemOf(error);
    } finally {
      leave();
    }
  }

  const tooLong = (): ProblemError =>
    new ProblemError(
      422,
      `It takes longer than ${runSecondsMax} seconds: ask for less, or send "save": true, and it is run as a job.`,
    );

  function problemOf(error: unknown): unknown {
    const { why, faults } = toBacktestFailure(error);
    switch (why) {
      case 'unfit':
        return createInvalidBacktestError(faults);
      case 'too large':
        return new ProblemError(
          422,
          `${formatTicksMaxMessage(ticksAtOnceMax)}: ask for less, or send "save": true, and it is run as a job.`,
        );
      case 'unexpected':
        return error;
      default:
        return new ProblemError(503, failureMessages[why], { headers: { 'retry-after': retryAfter[why] } });
    }
  }
}

const formatTicksMaxMessage = (max: number): string =>
  `More than ${max} ticks would be played, counted for each point of a grid, and there for each measure over a window`;
