import type { ArchiveState } from '../core/verdict.ts';
import { standingOf } from '../reading/archive-status.ts';
import type { ServiceContext } from './context.ts';

/** Whether requests can be answered, and from an archive that is kept up to date. */
export interface Readiness {
  readonly generation: number | null;
  /** How whole the archive is; null where it cannot be read. */
  readonly verdict: ArchiveState | null;
  /** How far what is covered lies behind now, inferred windows included; null where there is no live symbol. */
  readonly lagSeconds: number | null;
  /** What is wrong, by the part that it is wrong with; none where all is well. Nothing of an error itself. */
  readonly wrong: readonly { readonly name: 'archive' | 'watermark' | 'database'; readonly reason: string }[];
}

/** A key that nobody has, of the form that is looked up in the database. */
const nobodysKey = `olk_${'A'.repeat(12)}_${'A'.repeat(43)}`;

/** Looks at archive and database; never throws for what it finds. */
export async function readinessOf(context: ServiceContext): Promise<Readiness> {
  const wrong: Readiness['wrong'][number][] = [];
  const standing = readArchive(context);
  if (standing === null) wrong.push({ name: 'archive', reason: 'cannot be read' });
  else if (standing.generation === 0) wrong.push({ name: 'archive', reason: 'has nothing published yet' });
  const { lagSecondsMax } = context.settings.service;
  const lagSeconds = lagOf(standing?.reached ?? null, context.clock.nowMs());
  if (lagSeconds !== null && lagSeconds > lagSecondsMax) {
    const reason = `lies ${Math.round(lagSeconds)} seconds behind, more than the ${lagSecondsMax} allowed`;
    wrong.push({ name: 'watermark', reason });
  }
  if (!(await canAuthenticate(context))) wrong.push({ name: 'database', reason: 'of keys cannot be read' });
  return { generation: standing?.generation ?? null, lagSeconds, verdict: standing?.verdict.state ?? null, wrong };
}

/** Seconds that a watermark lies behind; null where there is none. */
export const lagOf = (watermark: number | null, nowMs: number): number | null =>
  watermark === null ? null : Math.max(0, nowMs - watermark) / 1000;

function readArchive({ archive, clock, log }: ServiceContext) {
  try {
    return standingOf(archive, clock.nowMs());
  } catch (error) {
    log.error({ err: error }, 'the archive cannot be read');
    return null;
  }
}

async function canAuthenticate({ workspace, clock, log }: ServiceContext): Promise<boolean> {
  try {
    await workspace.authenticate(nobodysKey, clock.nowMs());
    return true;
  } catch (error) {
    log.error({ err: error }, 'the database of keys cannot be read');
    return false;
  }
}
