import { Type } from 'typebox';
import { readArchiveStatus } from '../../archive/read/archive-status.ts';
import type { ArchiveState } from '../../contract/completeness-counts.ts';
import { paths } from '../../contract/paths.ts';
import { ReadyResponse } from '../../contract/service.ts';
import type { App, ServiceContext } from '../http/context.ts';
import { ProblemError } from '../http/problem-details.ts';

/** Whether requests can be answered, and from an archive that is kept up to date. */
export interface ReadinessReport {
  readonly generation: number | null;
  /** How whole the archive is; null where it cannot be read. */
  readonly verdict: ArchiveState | null;
  /** How far what is covered lies behind now, inferred windows included; null where there is no live symbol. */
  readonly lagSeconds: number | null;
  /** What is wrong, by the part that it is wrong with; none where all is well. Nothing of an error itself. */
  readonly wrong: readonly { readonly name: 'archive' | 'watermark' | 'database'; readonly reason: string }[];
}

/** A key that nobody has, of the form that is looked up in the database. */
const unknownApiKey = `olk_${'A'.repeat(12)}_${'A'.repeat(43)}`;

/** Looks at archive and database; never throws for what it finds. */
export async function checkReadiness(context: ServiceContext): Promise<ReadinessReport> {
  const wrong: ReadinessReport['wrong'][number][] = [];
  const standing = checkArchive(context);
  if (standing === null) wrong.push({ name: 'archive', reason: 'cannot be read' });
  else if (standing.generation === 0) wrong.push({ name: 'archive', reason: 'has nothing published yet' });
  const { lagSecondsMax } = context.settings.service;
  const lagSeconds = computeLagSeconds(standing?.reached ?? null, context.clock.nowMs());
  if (lagSeconds !== null && lagSeconds > lagSecondsMax) {
    const reason = `lies ${Math.round(lagSeconds)} seconds behind, more than the ${lagSecondsMax} allowed`;
    wrong.push({ name: 'watermark', reason });
  }
  if (!(await canAuthenticate(context))) wrong.push({ name: 'database', reason: 'of keys cannot be read' });
  return { generation: standing?.generation ?? null, lagSeconds, verdict: standing?.verdict.state ?? null, wrong };
}

/** Seconds that a watermark lies behind; null where there is none. */
export const computeLagSeconds = (watermark: number | null, nowMs: number): number | null =>
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
    log.error({ err: error }, 'the database of keys cannot be read');
    return false;
  }
}

/** `/readyz`: whether requests should come here. */
export function registerReadyRoutes(app: App, context: ServiceContext): void {
  app.get(
    paths.ready,
    {
      config: { access: 'open' },
      schema: {
        summary: 'Whether the archive can be read and is kept up to date',
        description: 'Otherwise 503, with what is wrong: the archive, its watermark, or the database of keys.',
        tags: ['operations'],
        security: [],
        response: { 200: ReadyResponse },
      },
    },
    async (_, reply) => {
      reply.header('cache-control', 'no-store');
      const { generation, lagSeconds, verdict, wrong } = await checkReadiness(context);
      if (wrong.length > 0 || generation === null || verdict === null) {
        const said = wrong.map(({ name, reason }) => `The ${name} ${reason}.`).join(' ');
        throw new ProblemError(503, said, { errors: [...wrong], headers: { 'cache-control': 'no-store' } });
      }
      return { status: 'ready' as const, generation, lag_seconds: lagSeconds, verdict };
    },
  );
}

/** `/healthz`: the process answers. */
export function registerHealthRoutes(app: App): void {
  app.get(
    paths.health,
    {
      config: { access: 'open' },
      schema: {
        summary: 'Whether the process answers',
        tags: ['operations'],
        response: { 200: Type.Object({ status: Type.Literal('ok') }) },
      },
    },
    async () => ({ status: 'ok' as const }),
  );
}
