import { Type } from 'typebox';
import { type Facts, judge } from '../../archive/read/judge.ts';
import { titled } from '../../contract/export-manifest.ts';
import { toOpenJudgement } from '../../contract/finding.ts';
import { paths } from '../../contract/paths.ts';
import { ReadyResponse } from '../../contract/service.ts';
import { ProblemError } from '../http/problem-details.ts';
import { type App, readServiceFacts, type ServiceContext } from '../http/service-context.ts';

/** A nonexistent key in a valid format, so that checking it requires a database query. */
const unknownApiKey = `olk_${'A'.repeat(12)}_${'A'.repeat(43)}`;

/** Seconds since a watermark; null without a watermark. */
const computeLagSeconds = (watermark: number | null, nowMs: number): number | null =>
  watermark === null ? null : Math.max(0, nowMs - watermark) / 1000;

async function canAuthenticate({ workspace, clock, log }: ServiceContext): Promise<boolean> {
  try {
    await workspace.authenticate(unknownApiKey, clock.nowMs());
    return true;
  } catch (error) {
    log.error({ err: error }, 'the database cannot be read');
    return false;
  }
}

/** Why the service has no data, or no current data. Not all of it is wrong with the archive, as one that was just created. */
function listUnready({ status, nowMs, lagMsMax }: Facts): { readonly name: string; readonly reason: string }[] {
  if (status === null) return [{ name: 'archive', reason: 'cannot be read' }];
  if (status.generation === 0) return [{ name: 'archive', reason: 'has nothing published yet' }];
  const lagMs = nowMs - (status.reached ?? nowMs);
  if (lagMs <= lagMsMax) return [];
  const reason = `is ${Math.round(lagMs / 1000)} seconds behind; the limit is ${lagMsMax / 1000}`;
  return [{ name: 'watermark', reason }];
}

/** `/readyz`: whether the service can serve requests. */
export function registerReadyRoutes(app: App, context: ServiceContext): void {
  app.get(
    paths.ready,
    {
      config: { access: 'open' },
      schema: {
        operationId: 'getReadiness',
        summary: 'Whether the archive can be read and is kept up to date',
        description: 'Otherwise responds with 503 and names the cause: the archive, its watermark, or the database.',
        tags: ['operations'],
        response: { 200: ReadyResponse },
      },
    },
    async () => {
      const facts = readServiceFacts(context);
      const { status } = facts;
      const { verdict, findings } = toOpenJudgement(judge(facts));
      const wrong = [
        ...listUnready(facts),
        ...((await canAuthenticate(context)) ? [] : [{ name: 'database', reason: 'cannot be read' }]),
      ];
      if (wrong.length > 0 || status === null) {
        const detail = wrong.map(({ name, reason }) => `The ${name} ${reason}.`).join(' ');
        throw new ProblemError(503, detail, { code: 'not_ready', errors: wrong });
      }
      const { generation, completeness, reached } = status;
      return {
        status: 'ready' as const,
        generation,
        lag_seconds: computeLagSeconds(reached, facts.nowMs),
        archive_state: completeness.state,
        verdict: { state: verdict.state, text: verdict.text },
        findings: findings.map(({ kind, severity }) => ({ kind, severity })),
      };
    },
  );
}

/** `/healthz`: the process responds. */
export function registerHealthRoutes(app: App): void {
  app.get(
    paths.health,
    {
      config: { access: 'open' },
      schema: {
        operationId: 'getHealth',
        summary: 'Whether the process responds',
        tags: ['operations'],
        response: { 200: titled('Health', { status: Type.Literal('ok') }) },
      },
    },
    async () => ({ status: 'ok' as const }),
  );
}
