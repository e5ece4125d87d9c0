import { join } from 'node:path';
import { createLayout } from '../archive/format/layout.ts';
import { type ExitCode, exitCodes, OddslakeError } from '../base/errors.ts';
import { formatCount } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';
import type { Context } from '../context/context.ts';
import { parseDatabaseUrl } from '../server/workspace/database-url.ts';
import { type Environment, settingSchemas } from '../settings/source.ts';
import { type ArchiveProbe, judgeArchive, probeArchive } from './archive.ts';
import { judgeDisk, probeDisk } from './disk.ts';
import { computeDoctorExitCode, createFindings, type Finding, type FindingGroup, findingGroups } from './finding.ts';
import { judgeMachine, probeMachine } from './machine.ts';
import { judgeUpstream, probeUpstream } from './upstream.ts';

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
  readonly settings: readonly NonDefaultSetting[];
}

export interface DoctorOptions {
  readonly nonDefaultSettings: readonly NonDefaultSetting[];
  readonly env: Environment;
  /** Whether the network may be used. */
  readonly isOnline: boolean;
}

/**
 * Looks at everything that a run needs, from the machine to the archive, and changes nothing of it. One request goes to
 * the upstream, in its turn of the pace that the archive's processes share.
 */
export async function diagnose(
  context: Context,
  { nonDefaultSettings, env, isOnline }: DoctorOptions,
): Promise<Diagnosis> {
  const { settings, clock } = context;
  const findings: Finding[] = [];
  const look = async (
    group: FindingGroup,
    check: string,
    judged: () => Finding[] | Promise<Finding[]>,
  ): Promise<void> => {
    try {
      findings.push(...(await judged()));
    } catch (error) {
      context.signal.throwIfAborted();
      const { message } = error as Error;
      findings.push(
        createFindings(group, check).problem(
          getErrorExitCode(error),
          `could not be looked at: ${message}`,
          'Mend that first.',
        ),
      );
    }
  };
  const probed: { found: ArchiveProbe | null } = { found: null };
  await look('archive', 'archive', () => {
    probed.found = probeArchive(context);
    return judgeArchive(probed.found.facts, clock.nowMs(), settings.service.lagSecondsMax * 1000);
  });
  const { inspection: archive, manifest } = probed.found ?? { inspection: null, manifest: null };
  const root = settings.archive.output;
  await look('machine', 'node', () => judgeMachine(probeMachine(clock)));
  await look('disk', 'space', () =>
    judgeDisk(probeDisk(root, manifest, listSecretFiles(context, nonDefaultSettings), clock.nowMs())),
  );
  findings.push(judgeSettings(nonDefaultSettings));
  await look('settings', 'schedule', async () => [judgeSchedule(await readScheduledJobs(context))]);
  await look('upstream', 'address', async () => {
    const state = archive?.state instanceof OddslakeError ? null : (archive?.state ?? null);
    const privateFolder = archive?.kind === 'archive' ? createLayout(root).privateFolder : null;
    const facts = await probeUpstream(context, {
      isOnline,
      env,
      privateFolder,
      lastRunSummary: state?.lastRequestingSummary ?? null,
    });
    return judgeUpstream(facts, settings.poll.futureSkewSeconds * 1000);
  });
  await look('service', 'database', async () => [judgeService(await probeService(context))]);
  return buildDiagnosis(context.version, clock.nowMs(), context.strict, findings, nonDefaultSettings);
}

/** What can be said where the settings cannot be read. */
export const diagnoseUnreadableSettings = (
  error: OddslakeError,
  version: string,
  clock: Context['clock'],
  strict: boolean,
): Diagnosis =>
  buildDiagnosis(
    version,
    clock.nowMs(),
    strict,
    [...judgeMachine(probeMachine(clock)), createUnreadableSettingsFinding(error)],
    [],
  );

function buildDiagnosis(
  version: string,
  checkedAt: number,
  strict: boolean,
  findings: readonly Finding[],
  settings: readonly NonDefaultSetting[],
): Diagnosis {
  const count = (level: Finding['level']): number => findings.filter((finding) => finding.level === level).length;
  return {
    version,
    checked_at: checkedAt,
    exit_code: computeDoctorExitCode(findings, strict),
    problems: count('problem'),
    warnings: count('warning'),
    findings: findings.toSorted((a, b) => findingGroups.indexOf(a.group) - findingGroups.indexOf(b.group)),
    settings,
  };
}

const getErrorExitCode = (error: unknown): ExitCode =>
  error instanceof OddslakeError ? error.exitCode : exitCodes.unexpected;

/** The files that hold a secret: those that the settings name, and a config that has one in it. */
function listSecretFiles({ settings }: Context, chosen: readonly NonDefaultSetting[]): string[] {
  const { configFile, upstream, repair } = settings;
  const inConfig = chosen.some(({ value, from }) => value === hiddenValue && from === configFile);
  const named = [upstream.apiKeyFile, repair.fromApiKeyFile, inConfig ? configFile : null];
  return named.filter((path) => path !== null);
}

/** What stands for a secret's value. */
export const hiddenValue = '(hidden)';

/** The rest of that section says how the jobs are kept. */
const isCronSetting = (name: string): boolean =>
  settingSchemas.get(`schedule.${name}`)?.anyOf?.some(({ description }) => description === 'a cron expression') ===
  true;

async function readScheduledJobs({ settings, clock }: Context): Promise<ScheduledJobFacts[]> {
  const { parseCron } = await import('../settings/cron.ts');
  return Object.entries(settings.schedule).flatMap(([job, cron]) =>
    isCronSetting(job) && typeof cron === 'string' ? [{ job, next: parseCron(cron).findNext(clock.nowMs()) }] : [],
  );
}

async function probeService({ settings }: Context): Promise<ServiceFacts> {
  const { databaseUrl } = settings.service;
  const file = join(createLayout(settings.archive.output).privateFolder, 'service.sqlite');
  let told = databaseUrl === null ? "SQLite in the archive's .oddslake" : 'the one that ODDSLAKE_DATABASE_URL names';
  try {
    const location = parseDatabaseUrl(databaseUrl, file);
    if (databaseUrl !== null) told = location.kind === 'sqlite' ? `SQLite in ${location.path}` : 'PostgreSQL';
    const { inspectWorkspace } = await import('../server/workspace/inspect.ts');
    const pending = await inspectWorkspace(location);
    return { description: told, database: pending === null ? null : { pending } };
  } catch (error) {
    if (!(error instanceof OddslakeError)) throw error;
    return {
      description: told,
      database: { fault: error.message, exitCode: error.exitCode === exitCodes.usage ? 2 : 1 },
    };
  }
}

/** A setting that is not the default. */
export interface NonDefaultSetting {
  readonly path: string;
  /** As JSON; `(hidden)` for a secret. */
  readonly value: string;
  /** Where it is from: the config's path, a variable of the environment, a flag. */
  readonly from: string;
}

export interface ScheduledJobFacts {
  readonly job: string;
  /** When it is to start next, epoch ms; null where that is never. */
  readonly next: number | null;
}

export function judgeSettings(chosen: readonly NonDefaultSetting[]): Finding {
  const { ok } = createFindings('settings', 'settings');
  return ok(
    chosen.length === 0 ? 'all as they are by default' : `${formatCount(chosen.length, 'setting')} not the default:`,
  );
}

/** Settings that could not be read: nothing else of what depends on them can be looked at. */
export const createUnreadableSettingsFinding = ({ message, exitCode }: OddslakeError): Finding =>
  createFindings('settings', 'settings').problem(
    exitCode,
    message,
    'Every setting: docs/SETTINGS.md and config/default.yaml.',
  );

export function judgeSchedule(jobs: readonly ScheduledJobFacts[]): Finding {
  const { ok } = createFindings('settings', 'schedule');
  const set = jobs.filter((job): job is { job: string; next: number } => job.next !== null);
  return ok(
    set.length === 0
      ? 'nothing, so that oddslake schedule has nothing to run'
      : `${set.map(({ job, next }) => `${job} next at ${formatIsoUtc(next)}`).join(', ')}, where oddslake schedule runs`,
  );
}

/** The database of `oddslake serve` and `oddslake keys`. */
export interface ServiceFacts {
  /** E.g. `SQLite in .oddslake`, `postgres://db.example/oddslake`; never with a password. */
  readonly description: string;
  /** Null where there is none yet: the first key makes it. */
  readonly database: { readonly pending: number } | { readonly fault: string; readonly exitCode: 1 | 2 } | null;
}

export function judgeService({ description, database }: ServiceFacts): Finding {
  const { ok, problem } = createFindings('service', 'database');
  if (database === null) return ok(`${description}, not made yet: oddslake keys create makes it`);
  if ('fault' in database)
    return problem(
      database.exitCode,
      database.fault,
      'Only oddslake serve, keys and tokens need it; check ODDSLAKE_DATABASE_URL, and that the database runs.',
    );
  return database.pending === 0
    ? ok(description)
    : ok(`${description}, of an older oddslake: the next oddslake serve brings it up to date`);
}
