import { Type } from 'typebox';
import { readArchiveStatus } from '../../archive/read/archive-status.ts';
import { titled } from '../../contract/export-manifest.ts';
import { paths } from '../../contract/paths.ts';
import { ReadyResponse } from '../../contract/service.ts';
import { ProblemError } from '../http/problem-details.ts';
import type { App, ServiceContext } from '../http/service-context.ts';

/** A nonexistent key in a valid format, so that checking it requires a database query. */
const unknownApiKey = `olk_${'A'.repeat(12)}_${'A'.repeat(43)}`;

/** Seconds since a watermark; null without a watermark. */
const computeLagSeconds = (watermark: number | null, nowMs: number): number | null =>
  watermark === null ? null : Math.max(0, nowMs - watermark) / 1000;

function checkArchive({ archive, clock, log }: ServiceContext) {
  try {
    return readArchiveStatus(archive, clock.nowMs());
  } catch (error) {
    log.error({ err: error }, 'the archive cannot be read');
    return null;
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
      // Problems by component, without messages of errors.
      const wrong: { name: 'archive' | 'watermark' | 'database'; reason: string }[] = [];
      const status = checkArchive(context);
      if (status === null) wrong.push({ name: 'archive', reason: 'cannot be read' });
      else if (status.generation === 0) wrong.push({ name: 'archive', reason: 'has nothing published yet' });
      const { lagSecondsMax } = context.settings.service;
      const lagSeconds = computeLagSeconds(status?.reached ?? null, context.clock.nowMs());
      if (lagSeconds !== null && lagSeconds > lagSecondsMax) {
        const reason = `is ${Math.round(lagSeconds)} seconds behind; the limit is ${lagSecondsMax}`;
        wrong.push({ name: 'watermark', reason });
      }
      if (!(await canAuthenticate(context))) wrong.push({ name: 'database', reason: 'cannot be read' });
      if (wrong.length > 0 || status === null) {
        const detail = wrong.map(({ name, reason }) => `The ${name} ${reason}.`).join(' ');
        throw new ProblemError(503, detail, { code: 'not_ready', errors: wrong });
      }
      const { generation, completeness } = status;
      return { status: 'ready' as const, generation, lag_seconds: lagSeconds, archive_state: completeness.state };
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
