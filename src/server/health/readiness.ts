import { Type } from 'typebox';
import { readArchiveStatus } from '../../archive/read/archive-status.ts';
import { type Facts, judge } from '../../archive/read/judge.ts';
import { titled } from '../../contract/export-manifest.ts';
import type { FindingKind } from '../../contract/finding.ts';
import { paths } from '../../contract/paths.ts';
import { ReadyResponse } from '../../contract/service.ts';
import { ProblemError } from '../http/problem-details.ts';
import type { App, ServiceContext } from '../http/service-context.ts';

/** A nonexistent key in a valid format, so that checking it requires a database query. */
const unknownApiKey = `olk_${'A'.repeat(12)}_${'A'.repeat(43)}`;

/** Seconds since a watermark; null without a watermark. */
const computeLagSeconds = (watermark: number | null, nowMs: number): number | null =>
  watermark === null ? null : Math.max(0, nowMs - watermark) / 1000;

/** What the judge of the archive needs. */
export function readServiceFacts({ archive, clock, log, settings }: ServiceContext): Facts {
  const [nowMs, lagMsMax] = [clock.nowMs(), settings.service.lagSecondsMax * 1000];
  try {
    return { nowMs, lagMsMax, status: readArchiveStatus(archive, nowMs) };
  } catch (error) {
    log.error({ err: error }, 'the archive cannot be read');
    return { nowMs, lagMsMax, status: null };
  }
}

async function canAuthenticate({ workspace, clock, log }: ServiceContext): Promise<boolean> {
  try {
    await workspace.authenticate(unknownApiKey, clock.nowMs());
    return true;
  } catch (error) {
    log.error({ err: error }, 'the database cannot be read');
    return false;
  }
}

/** Whether a finding means that the service has no data, or no current data. */
const isUnready = (kind: FindingKind, { status, nowMs, lagMsMax }: Facts): boolean =>
  kind === 'archive unreadable' ||
  (kind === 'empty' && status?.generation === 0) ||
  (kind === 'lag' && status !== null && status.reached !== null && nowMs - status.reached > lagMsMax);

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
      const { verdict, findings } = judge(facts);
      // Without messages of errors.
      const wrong = [
        ...findings.flatMap(({ kind, message }) => (isUnready(kind, facts) ? [{ name: kind, reason: message }] : [])),
        ...((await canAuthenticate(context)) ? [] : [{ name: 'database', reason: 'the database cannot be read' }]),
      ];
      if (wrong.length > 0 || status === null) {
        const detail = wrong.map(({ reason }) => `${reason[0]!.toUpperCase()}${reason.slice(1)}.`).join(' ');
        throw new ProblemError(503, detail, { code: 'not_ready', errors: wrong });
      }
      const { generation, completeness, reached } = status;
      return {
        status: 'ready' as const,
        generation,
        lag_seconds: computeLagSeconds(reached, facts.nowMs),
        archive_state: completeness.state,
        verdict: { state: verdict.state, text: verdict.text },
        findings: findings.map(({ kind, severity, message }) => ({ kind, severity, message })),
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
