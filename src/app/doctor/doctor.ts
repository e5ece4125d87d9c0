import { join } from 'node:path';
import { layoutOf } from '../../archive/layout.ts';
import { type ExitCode, exitCodes, OddslakeError } from '../../core/errors.ts';
import type { Environment } from '../../settings/environment.ts';
import { leaves } from '../../settings/source.ts';
import { readLocation } from '../../workspace/database-url.ts';
import type { Context } from '../context.ts';
import { judgeArchive } from './archive.ts';
import { judgeDisk } from './disk.ts';
import { exitCodeOf, type Finding, type Group, groups, of } from './finding.ts';
import { judgeMachine } from './machine.ts';
import { type ProbedArchive, probeArchive } from './probe-archive.ts';
import { probeDisk } from './probe-disk.ts';
import { probeMachine } from './probe-machine.ts';
import { probeUpstream } from './probe-upstream.ts';
import { judgeService, type ServiceFacts } from './service.ts';
import { badSettings, type Chosen, judgeSchedule, judgeSettings, type ScheduledFacts } from './settings.ts';
import { judgeUpstream } from './upstream.ts';

/** What `doctor --json` prints. Times are epoch milliseconds. */
export interface Diagnosis {
  readonly version: string;
  readonly checked_at: number;
  /** That of the problem that a run would meet first; with --strict warnings are 4. */
  readonly exit_code: ExitCode;
  readonly problems: number;
  readonly warnings: number;
  readonly findings: readonly Finding[];
  /** Settings that are not the default, and where each is from; secrets are hidden. */
  readonly settings: readonly Chosen[];
}

export interface Question {
  readonly chosen: readonly Chosen[];
  readonly env: Environment;
  /** Whether the network may be used. */
  readonly online: boolean;
}

/**
 * Looks at everything that a run needs, from the machine to the archive, and changes nothing of it. One request goes to
 * the upstream, in its turn of the pace that the archive's processes share.
 */
export async function diagnose(context: Context, { chosen, env, online }: Question): Promise<Diagnosis> {
  const { settings, clock } = context;
  const findings: Finding[] = [];
  const look = async (group: Group, check: string, judged: () => Finding[] | Promise<Finding[]>): Promise<void> => {
    try {
      findings.push(...(await judged()));
    } catch (error) {
      context.signal.throwIfAborted();
      const { message } = error as Error;
      findings.push(of(group, check).problem(codeOf(error), `could not be looked at: ${message}`, 'Mend that first.'));
    }
  };
  const probed: { found: ProbedArchive | null } = { found: null };
  await look('archive', 'archive', () => {
    probed.found = probeArchive(context);
    return judgeArchive(probed.found.facts, clock.nowMs(), settings.service.lagSecondsMax * 1000);
  });
  const { look: archive, manifest } = probed.found ?? { look: null, manifest: null };
  const root = settings.archive.output;
  await look('machine', 'node', () => judgeMachine(probeMachine(clock)));
  await look('disk', 'space', () => judgeDisk(probeDisk(root, manifest, secretFiles(context, chosen), clock.nowMs())));
  findings.push(judgeSettings(chosen));
  await look('settings', 'schedule', async () => [judgeSchedule(await scheduled(context))]);
  await look('upstream', 'address', async () => {
    const state = archive?.state instanceof OddslakeError ? null : (archive?.state ?? null);
    const privateFolder = archive?.kind === 'archive' ? layoutOf(root).private : null;
    const facts = await probeUpstream(context, { online, env, privateFolder, lastAsking: state?.lastAsking ?? null });
    return judgeUpstream(facts, settings.poll.futureSkewSeconds * 1000);
  });
  await look('service', 'database', async () => [judgeService(await probeService(context))]);
  return diagnosis(context.version, clock.nowMs(), context.strict, findings, chosen);
}

/** What can be said where the settings cannot be read. */
export const diagnoseWithout = (
  error: OddslakeError,
  version: string,
  clock: Context['clock'],
  strict: boolean,
): Diagnosis =>
  diagnosis(version, clock.nowMs(), strict, [...judgeMachine(probeMachine(clock)), badSettings(error)], []);

function diagnosis(
  version: string,
  checkedAt: number,
  strict: boolean,
  findings: readonly Finding[],
  settings: readonly Chosen[],
): Diagnosis {
  const count = (level: Finding['level']): number => findings.filter((finding) => finding.level === level).length;
  return {
    version,
    checked_at: checkedAt,
    exit_code: exitCodeOf(findings, strict),
    problems: count('problem'),
    warnings: count('warning'),
    findings: findings.toSorted((a, b) => groups.indexOf(a.group) - groups.indexOf(b.group)),
    settings,
  };
}

const codeOf = (error: unknown): ExitCode => (error instanceof OddslakeError ? error.exitCode : exitCodes.unexpected);

/** The files that hold a secret: those that the settings name, and a config that has one in it. */
function secretFiles({ settings }: Context, chosen: readonly Chosen[]): string[] {
  const { configFile, upstream, repair } = settings;
  const inConfig = chosen.some(({ value, from }) => value === hiddenValue && from === configFile);
  const named = [upstream.apiKeyFile, repair.fromApiKeyFile, inConfig ? configFile : null];
  return named.filter((path) => path !== null);
}

/** What stands for a secret's value. */
export const hiddenValue = '(hidden)';

/** The rest of that section says how the jobs are kept. */
const isCron = (name: string): boolean =>
  leaves.get(`schedule.${name}`)?.anyOf?.some(({ description }) => description === 'a cron expression') === true;

async function scheduled({ settings, clock }: Context): Promise<ScheduledFacts[]> {
  const { parseCron } = await import('../../settings/cron.ts');
  return Object.entries(settings.schedule).flatMap(([job, cron]) =>
    isCron(job) && typeof cron === 'string' ? [{ job, next: parseCron(cron).next(clock.nowMs()) }] : [],
  );
}

async function probeService({ settings }: Context): Promise<ServiceFacts> {
  const { databaseUrl } = settings.service;
  const file = join(layoutOf(settings.archive.output).private, 'service.sqlite');
  let told = databaseUrl === null ? "SQLite in the archive's .oddslake" : 'the one that ODDSLAKE_DATABASE_URL names';
  try {
    const location = readLocation(databaseUrl, file);
    if (databaseUrl !== null) told = location.kind === 'sqlite' ? `SQLite in ${location.path}` : 'PostgreSQL';
    const { lookAtWorkspace } = await import('../../workspace/inspect.ts');
    const pending = await lookAtWorkspace(location);
    return { told, database: pending === null ? null : { pending } };
  } catch (error) {
    if (!(error instanceof OddslakeError)) throw error;
    return { told, database: { fault: error.message, exitCode: error.exitCode === exitCodes.usage ? 2 : 1 } };
  }
}
