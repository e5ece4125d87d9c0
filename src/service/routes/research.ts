import { BacktestAnswer, BacktestRequest, KeptBacktest } from '../../contract/backtests.ts';
import { paths } from '../../contract/paths.ts';
import { CreatedHeaders, ObjectRequestHeaders } from '../../contract/strategies.ts';
import {
  backtestInThread,
  failedBacktest,
  isTooLarge,
  reasons,
} from '../../reading/backtest-jobs/backtest-in-thread.ts';
import { ownerOf } from '../../workspace/owner.ts';
import type { BacktestRow, OwnerColumns } from '../../workspace/tables.ts';
import { type BacktestWanted, type ReadBody, readBody, requireBacktest, unfit } from '../backtest-request.ts';
import { backtestUrl, keptBacktest } from '../backtest-response.ts';
import type { BacktestDesk } from '../backtest-service.ts';
import type { ServiceContext } from '../context.ts';
import { createGate } from '../fair-semaphore.ts';
import type { App } from '../fastify-types.ts';
import { ProblemError } from '../problem-details.ts';
import { userOf } from '../route-access.ts';
import { untilGone, whyEnded } from '../stream-response.ts';
import { fingerprintOf, newObjectId, otherBody } from '../user-resource.ts';
import { plain } from './export.ts';

/** Jobs whose ticks are counted at a time: each takes a thread. */
const countsAtOnce = 2;

/** Seconds: what somebody has to mend, or to make room for, takes its time. */
const retryAfter = { damaged: '600', full: '300' } as const;

/** What a request is known again by. */
interface Named {
  readonly key: string | null;
  readonly fingerprint: string;
}

/** Runs of one user that may wait to be answered at once. */
const waitingMax = 2;

/** `POST /api/v1/research/backtest`: a run that is answered at once, or a job whose result is kept. */
export function researchRoutes(app: App, context: ServiceContext, { jobs, runner }: BacktestDesk): void {
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
  const running = createGate(runsAtOnceMax, waitingMax);
  const counting = createGate(countsAtOnce, jobsMax);
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
          200: BacktestAnswer,
          202: {
            description: 'It is a job, or was made one under this Idempotency-Key before.',
            headers: CreatedHeaders,
            content: { 'application/json': { schema: KeptBacktest } },
          },
        },
      },
    },
    async (request, reply) => {
      const [asked, answer] = plain(request, reply);
      const user = userOf(asked);
      const owner = ownerOf(user);
      const body = readBody(asked.body);
      if (body.save) {
        const named = { key: request.headers['idempotency-key'] ?? null, fingerprint: fingerprintOf(asked.body) };
        const row = await kept(owner, body, named, untilGone(answer, context.signal));
        runner.wake();
        return reply.code(202).header('location', backtestUrl(row)).send(keptBacktest(row));
      }
      const wanted = await requireBacktest(context, owner, body);
      const signal = untilGone(answer, context.signal);
      try {
        const result = await answeredAtOnce(owner.owner, wanted, signal);
        return { ...JSON.parse(result), generated_at: clock.nowMs() };
      } catch (error) {
        throw whyEnded(error, signal, context.signal);
      }
    },
  );

  /** The job that a request makes, or made before. */
  async function kept(owner: OwnerColumns, body: ReadBody, named: Named, signal: AbortSignal): Promise<BacktestRow> {
    const { key, fingerprint } = named;
    // What was asked for then may be gone by now: that it was made is still to be told.
    const before = key === null ? null : await jobs.made(owner, key);
    const row = before ?? (await added(owner, body, named, signal));
    if (row.body_sha256 !== fingerprint) throw otherBody();
    return row;
  }

  async function added(owner: OwnerColumns, body: ReadBody, named: Named, signal: AbortSignal): Promise<BacktestRow> {
    const { key, fingerprint } = named;
    const wanted = await requireBacktest(context, owner, body);
    await requireSmall(owner.owner, wanted, signal);
    const { asked, found } = wanted;
    const now = clock.nowMs();
    const backtest = {
      ...owner,
      id: newObjectId(context),
      idempotency_key: key,
      body_sha256: fingerprint,
      created_at: now,
      asked: JSON.stringify(asked),
      strategy: JSON.stringify(found.strategy),
      strategy_version: found.version,
    };
    const one = await jobs.add(backtest, jobsMax, keptMax);
    if (one === 'full') {
      throw new ProblemError(429, `You have ${jobsMax} backtests waiting or under way: let one of them end.`, {
        headers: { 'retry-after': '60' },
      });
    }
    return 'known' in one ? one.known : one;
  }

  async function requireSmall(user: string, wanted: BacktestWanted, signal: AbortSignal): Promise<void> {
    let leave: (() => void) | undefined;
    try {
      leave = await counting.of(user).enter(signal);
      const count = isTooLarge(archive, { ...wanted, ticksMax: ticksJobMax }, signal);
      underWay.add(count);
      if (!(await count.finally(() => underWay.delete(count)))) return;
    } catch (error) {
      throw whyEnded(error, signal, context.signal);
    } finally {
      leave?.();
    }
    throw new ProblemError(422, `${weighed(ticksJobMax)}: ask for less.`);
  }

  async function answeredAtOnce(user: string, { asked, found }: BacktestWanted, signal: AbortSignal): Promise<string> {
    const leave = await running.of(user).enter(signal);
    const limit = AbortSignal.timeout(Math.ceil(runSecondsMax * 1000));
    try {
      const task = { asked, found, threads, ticksMax: ticksAtOnceMax };
      const run = backtestInThread(archive, task, { signal: AbortSignal.any([signal, limit]), progress() {} });
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
    const { why, faults } = failedBacktest(error);
    switch (why) {
      case 'unfit':
        return unfit(faults);
      case 'too large':
        return new ProblemError(
          422,
          `${weighed(ticksAtOnceMax)}: ask for less, or send "save": true, and it is run as a job.`,
        );
      case 'unexpected':
        return error;
      default:
        return new ProblemError(503, reasons[why], { headers: { 'retry-after': retryAfter[why] } });
    }
  }
}

const weighed = (max: number): string =>
  `More than ${max} ticks would be played, counted for each point of a grid, and there for each measure over a window`;
