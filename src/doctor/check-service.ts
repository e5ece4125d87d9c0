import { join } from 'node:path';
import { createLayout } from '../archive/format/layout.ts';
import { exitCodes, OddslakeError } from '../base/errors.ts';
import { formatCount, formatDuration } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';
import { dayMs } from '../base/window.ts';
import type { Context } from '../context/context.ts';
import { parseDatabaseUrl } from '../server/workspace/database-url.ts';
import type { KeyExpiry } from '../server/workspace/workspace-database.ts';
import { type Finding, formatSome, ok, problem, warning } from './finding.ts';

/** Keys that expire within this time are reported, ms. */
const expiresSoonMs = 14 * dayMs;

/**
 * Checks the database of `oddslake serve` and `oddslake keys`, and the expiry of its keys. Findings contain neither its
 * password nor secrets of keys.
 */
export async function checkService({ settings, clock }: Pick<Context, 'settings' | 'clock'>): Promise<Finding[]> {
  const { databaseUrl } = settings.service;
  try {
    const location = parseDatabaseUrl(
      databaseUrl,
      join(createLayout(settings.archive.output).privateFolder, 'service.sqlite'),
    );
    const { inspectWorkspace } = await import('../server/workspace/workspace-database.ts');
    const found = await inspectWorkspace(location);
    const name = location.kind === 'sqlite' ? `SQLite in ${location.path}` : 'PostgreSQL';
    if (found === null) return [ok('database', `${name}, not created yet: oddslake keys create creates it`)];
    return [ok('database', name), ...judgeKeys(found, clock.nowMs())];
  } catch (error) {
    if (!(error instanceof OddslakeError)) throw error;
    return [
      problem(
        'database',
        error.exitCode === exitCodes.usage ? exitCodes.usage : exitCodes.unexpected,
        error.message,
        'Check ODDSLAKE_DATABASE_URL, and that the database is running. Only oddslake serve, keys and tokens use it.',
      ),
    ];
  }
}

/**
 * Warns of keys that expired and of keys that expire soon, the earliest first. An expired key is reported until it is revoked:
 * its clients may still send it.
 * @param keys the keys that are not revoked
 */
export function judgeKeys(keys: readonly KeyExpiry[], nowMs: number): Finding[] {
  const ending = keys
    .flatMap(({ expires_at: at, ...key }) => (at === null ? [] : [{ ...key, at }]))
    .sort((a, b) => a.at - b.at);
  const list = (some: typeof ending): string =>
    formatSome(some.map(({ id, name, at }) => `${JSON.stringify(name)} (${id}) at ${formatIsoUtc(at)}`));
  const expired = ending.filter(({ at }) => at <= nowMs);
  const soon = ending.filter(({ at }) => at > nowMs && at <= nowMs + expiresSoonMs);
  const within = `within ${formatDuration(expiresSoonMs)}`;
  const findings = [
    warning(
      'api keys',
      `${formatCount(expired.length, 'key')} expired: ${list(expired)}`,
      'If clients still need them, create new ones: oddslake keys create. Revoke the expired ones: oddslake keys revoke ID.',
    ),
    warning(
      'api keys',
      `${formatCount(soon.length, 'key')} will expire ${within}: ${list(soon)}`,
      'Give clients that still need them a new secret: oddslake keys rotate ID --expires 90d.',
    ),
  ].filter((_, i) => [expired, soon][i]!.length > 0);
  if (findings.length > 0) return findings;
  return [ok('api keys', `${formatCount(keys.length, 'active key')}, none of which expires ${within}`)];
}
