import { setImmediate } from 'node:timers/promises';
import { readSymbol } from '../../archive/journal/symbol-store.ts';
import {
  bindGridPoints,
  InvalidBacktestError,
  type ResolvedStrategy,
  resolveStrategy,
} from '../../backtest/resolve-strategy.ts';
import {
  failureMessages,
  isTooLarge,
  runBacktestInThread,
  toBacktestFailure,
} from '../../backtest/run/backtest-job.ts';
import { expandGrid } from '../../backtest/strategy/parse-strategy.ts';
import { type BacktestSpec, backtestRequest } from '../../contract/backtest-request.ts';
import { BacktestResponse, SavedBacktest } from '../../contract/backtests.ts';
import type { Fault } from '../../contract/parsed-schema.ts';
import { paths } from '../../contract/paths.ts';
import { CreatedHeaders, ObjectRequestHeaders } from '../../contract/strategies.ts';
import type { ServiceLimits } from '../http/connection-limits.ts';
import { createFairSemaphore, type FairSemaphore } from '../http/fair-semaphore.ts';
import { createIdempotencyConflictError, ProblemError } from '../http/problem-details.ts';
import type { App, ServiceContext } from '../http/service-context.ts';
import { createDisconnectSignal, toRequestError } from '../http/stream-response.ts';
import { createStrategyStore } from '../workspace/strategy-store.ts';
import { type BacktestRow, createObjectId, type OwnerColumns } from '../workspace/tables.ts';
import { type BacktestService, toBacktestUrl, toSavedBacktest } from './backtest-routes.ts';
import { createInvalidBodyError, getOwner, hashBody, parseBody } from './user-resource.ts';

/** A backtest that is ready to run. */
interface ResolvedBacktest {
  readonly spec: BacktestSpec;
  readonly resolvedStrategy: ResolvedStrategy;
}

/** A validated request body. */
interface ParsedBacktestBody {
  readonly spec: BacktestSpec;
  readonly save: boolean;
  /** As received; `spec` has each symbol once. */
  readonly symbols: readonly string[];
}

/** @throws ProblemError 400 that names each invalid field */
function parseBacktestBody(body: unknown): ParsedBacktestBody {
  const { save, ...spec } = parseBody(backtestRequest, body, invalidRequest);
  return { spec, save, symbols: (body as { readonly symbols?: readonly string[] | null }).symbols ?? [] };
}

/**
 * Resolves the strategy and the symbols of a request.
 * @throws ProblemError 400 that names each invalid field
 */
async function resolveBacktest(
  { archive, workspace }: ServiceContext,
  owner: OwnerColumns,
  { spec, symbols }: ParsedBacktestBody,
): Promise<ResolvedBacktest> {
  const strategies = createStrategyStore(workspace.db);
  try {
    const resolvedStrategy = await resolveStrategy(spec.entry_executable, (name, version) =>
      strategies.find(owner, name, version),
    );
    const unknown: Fault[] = [];
    await processInBatches([...symbols.entries()], (batch) => {
      for (const [i, symbol] of batch)
        if (readSymbol(archive.state.db, symbol) === undefined)
          unknown.push({ name: `symbols[${i}]`, reason: 'is not a symbol of this archive' });
    });
    if (unknown.length > 0) throw new InvalidBacktestError(unknown);
    await processInBatches(expandGrid(spec.grid), (batch) => void bindGridPoints(batch, spec, resolvedStrategy));
    return { spec, resolvedStrategy };
  } catch (error) {
    throw error instanceof InvalidBacktestError ? createInvalidBacktestError(error.faults) : error;
  }
}

/** Processes items in batches, so that a large request does not block others. */
async function processInBatches<T>(items: readonly T[], work: (batch: readonly T[]) => void): Promise<void> {
  for (let i = 0; i < items.length; i += batchSize) {
    work(items.slice(i, i + batchSize));
    await setImmediate();
  }
}

const batchSize = 50;

const invalidRequest = 'The backtest request is invalid.';

const createInvalidBacktestError = (faults: readonly Fault[]): ProblemError =>
  createInvalidBodyError(faults, invalidRequest);

/** Concurrent cost estimates of jobs; each takes a thread. */
const countsConcurrentMax = 2;

/** Values of Retry-After in seconds: an operator has to act first. */
const retryAfter = { damaged: '600', full: '300' } as const;

/** Identifies a repeated request. */
interface IdempotentRequest {
  readonly key: string | null;
  readonly fingerprint: string;
}

/** Waiting immediate runs per user. */
const waitingMax = 2;

/** `POST /api/v1/research/backtest`: an immediate run, or a job with a saved result. */
export function registerResearchRoutes(
  app: App,
  context: ServiceContext,
  { jobs, runner }: BacktestService,
  limits: ServiceLimits,
): void {
  const runs = new ResearchRuns(context, jobs, limits);
  // The archive must stay open until the threads that read it have ended.
  app.addHook('onClose', async () => void (await Promise.allSettled(runs.threads)));

  app.post(
    paths.researchBacktest,
    {
      config: { access: 'research', problems: [422], body: backtestRequest.json },
      schema: {
        operationId: 'runBacktest',
        summary: 'Runs a strategy on the archive; requires the research scope',
        tags: ['users'],
        headers: ObjectRequestHeaders,
        response: {
          200: BacktestResponse,
          202: {
            description: 'The job was created, now or by an earlier request with this Idempotency-Key.',
            headers: CreatedHeaders,
            content: { 'application/json': { schema: SavedBacktest } },
          },
        },
      },
    },
    async (request, reply) => {
      const owner = getOwner(request);
      const body = parseBacktestBody(request.body);
      const signal = createDisconnectSignal(reply);
      if (body.save) {
        const key = request.headers['idempotency-key'] ?? null;
        const row = await runs.getOrCreateJob(owner, body, { key, fingerprint: hashBody(request.body) }, signal);
        runner.wake();
        return reply.code(202).header('location', toBacktestUrl(row)).send(toSavedBacktest(row));
      }
      const resolved = await resolveBacktest(context, owner, body);
      try {
        const result = await runs.runNow(owner.owner, resolved, signal);
        return { ...JSON.parse(result), generated_at: context.clock.nowMs() };
      } catch (error) {
        throw toRequestError(error, signal);
      }
    },
  );
}

/** Runs backtests at once, in threads of this process, or as jobs. */
class ResearchRuns {
  readonly threads = new Set<Promise<unknown>>();
  private readonly context: ServiceContext;
  private readonly jobs: BacktestService['jobs'];
  private readonly limits: ServiceLimits;
  private readonly running: FairSemaphore;
  private readonly counting: FairSemaphore;

  constructor(context: ServiceContext, jobs: BacktestService['jobs'], limits: ServiceLimits) {
    this.context = context;
    this.jobs = jobs;
    this.limits = limits;
    this.running = createFairSemaphore(context.settings.service.research.runsConcurrentMax, waitingMax);
    this.counting = createFairSemaphore(countsConcurrentMax, limits.backtestsWaitingMax);
  }

  /** The job of a request, new or existing. */
  async getOrCreateJob(
    owner: OwnerColumns,
    body: ParsedBacktestBody,
    idempotency: IdempotentRequest,
    signal: AbortSignal,
  ): Promise<BacktestRow> {
    const { key, fingerprint } = idempotency;
    // Check the key first: a repeated request must succeed even if its strategy or symbols are gone.
    const before = key === null ? null : await this.jobs.findByIdempotencyKey(owner, key);
    const row = before ?? (await this.createJob(owner, body, idempotency, signal));
    if (row.body_sha256 !== fingerprint) throw createIdempotencyConflictError();
    return row;
  }

  private async createJob(
    owner: OwnerColumns,
    body: ParsedBacktestBody,
    idempotency: IdempotentRequest,
    signal: AbortSignal,
  ): Promise<BacktestRow> {
    const { key, fingerprint } = idempotency;
    const resolved = await resolveBacktest(this.context, owner, body);
    await this.requireSmall(owner.owner, resolved, signal);
    const { spec, resolvedStrategy } = resolved;
    const now = this.context.clock.nowMs();
    const backtest = {
      ...owner,
      id: createObjectId(this.context),
      idempotency_key: key,
      body_sha256: fingerprint,
      created_at: now,
      request: JSON.stringify(spec),
      strategy: JSON.stringify(resolvedStrategy.strategy),
      strategy_version: resolvedStrategy.version,
    };
    const { backtestsWaitingMax, savedBacktestsMax } = this.limits;
    const outcome = await this.jobs.add(backtest, backtestsWaitingMax, savedBacktestsMax);
    if (outcome === 'full')
      throw new ProblemError(
        429,
        `You have ${backtestsWaitingMax} backtests waiting or running. Wait until one has ended.`,
        { code: 'too_many_jobs', headers: { 'retry-after': '60' } },
      );
    return 'known' in outcome ? outcome.known : outcome;
  }

  private async requireSmall(user: string, resolved: ResolvedBacktest, signal: AbortSignal): Promise<void> {
    try {
      using _permit = await this.counting.forHolder(user).acquire(signal);
      const count = isTooLarge(
        this.context.archive,
        { ...resolved, ticksMax: this.limits.backtestTicksJobMax },
        signal,
      );
      this.threads.add(count);
      if (!(await count.finally(() => this.threads.delete(count)))) return;
    } catch (error) {
      throw toRequestError(error, signal);
    }
    throw createTooLargeError(`${formatTooManyTicksMessage(this.limits.backtestTicksJobMax)}. Reduce the request.`);
  }

  async runNow(user: string, { spec, resolvedStrategy }: ResolvedBacktest, signal: AbortSignal): Promise<string> {
    using _permit = await this.running.forHolder(user).acquire(signal);
    const limit = AbortSignal.timeout(this.limits.backtestMsMax);
    try {
      const task = {
        spec,
        resolvedStrategy,
        threads: this.context.settings.service.research.threads,
        ticksMax: this.limits.backtestTicksSyncMax,
        trades: null,
      };
      const run = runBacktestInThread(this.context.archive, task, {
        signal: AbortSignal.any([signal, limit]),
        progress() {},
        isAwaited: true,
      });
      this.threads.add(run);
      return (await run.finally(() => this.threads.delete(run))).result;
    } catch (error) {
      signal.throwIfAborted();
      if (!limit.aborted) throw toProblem(error, this.limits);
      throw createTooLargeNowError(`The backtest takes longer than ${this.limits.backtestMsMax / 1000} seconds`);
    }
  }
}

const createTooLargeError = (detail: string): ProblemError =>
  new ProblemError(422, detail, { code: 'backtest_too_large' });

const createTooLargeNowError = (what: string): ProblemError =>
  createTooLargeError(`${what}. Reduce the request, or run it as a job with "save": true.`);

function toProblem(error: unknown, { backtestTicksSyncMax }: ServiceLimits): unknown {
  const { why, faults } = toBacktestFailure(error);
  switch (why) {
    case 'invalid':
      return createInvalidBacktestError(faults);
    case 'too large':
      return createTooLargeNowError(formatTooManyTicksMessage(backtestTicksSyncMax));
    case 'unexpected':
      return error;
    default:
      return new ProblemError(503, failureMessages[why], {
        code: why === 'damaged' ? 'damaged_data' : 'unavailable',
        headers: { 'retry-after': retryAfter[why] },
      });
  }
}

const formatTooManyTicksMessage = (max: number): string =>
  `The backtest would replay more than ${max} ticks, counted once per grid point and measure over a window`;
