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
  /** Exit code of the problem that a run would meet first. With --strict, warnings alone give 4. */
  readonly exit_code: ExitCode;
  readonly problems: number;
  readonly warnings: number;
  readonly findings: readonly Finding[];
  /** Settings that differ from the default, with their sources. Secrets are hidden. */
  readonly settings: readonly NonDefaultSetting[];
}

export interface DoctorOptions {
  readonly nonDefaultSettings: readonly NonDefaultSetting[];
  readonly env: Environment;
  /** Whether the network may be used. */
  readonly isOnline: boolean;
}

/**
 * Checks everything that a run needs, from the machine to the archive, and changes nothing. Sends one request to the upstream,
 * within the rate limit that the processes of the archive share.
 */
export async function diagnose(
  context: Context,
  { nonDefaultSettings, env, isOnline }: DoctorOptions,
): Promise<Diagnosis> {
  const { settings, clock } = context;
  const findings: Finding[] = [];
  const check = async (
    group: FindingGroup,
    name: string,
    runCheck: () => Finding[] | Promise<Finding[]>,
  ): Promise<void> => {
    try {
      findings.push(...(await runCheck()));
    } catch (error) {
      context.signal.throwIfAborted();
      const { message } = error as Error;
      findings.push(
        createFindings(group, name).problem(
          getErrorExitCode(error),
          `could not be checked: ${message}`,
          'Fix this first.',
        ),
      );
    }
  };
  const probed: { found: ArchiveProbe | null } = { found: null };
  await check('archive', 'archive', () => {
    probed.found = probeArchive(context);
    return judgeArchive(probed.found.facts, clock.nowMs(), settings.service.lagSecondsMax * 1000);
  });
  const { inspection: archive, manifest } = probed.found ?? { inspection: null, manifest: null };
  const root = settings.archive.output;
  await check('machine', 'node', () => judgeMachine(probeMachine(clock)));
  await check('disk', 'space', () =>
    judgeDisk(probeDisk(root, manifest, listSecretFiles(context, nonDefaultSettings), clock.nowMs())),
  );
  findings.push(judgeSettings(nonDefaultSettings));
  await check('settings', 'schedule', async () => [judgeSchedule(await readScheduledJobs(context))]);
  await check('upstream', 'address', async () => {
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
  await check('service', 'database', async () => [judgeService(await probeService(context))]);
  return buildDiagnosis(context.version, clock.nowMs(), context.strict, findings, nonDefaultSettings);
}

/** The diagnosis if the settings cannot be read. */
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

/** Files that contain a secret: key files, and the config file if it has one. */
function listSecretFiles({ settings }: Context, changed: readonly NonDefaultSetting[]): string[] {
  const { configFile, upstream, repair } = settings;
  const isInConfig = changed.some(({ value, from }) => value === hiddenValue && from === configFile);
  const files = [upstream.apiKeyFile, repair.fromApiKeyFile, isInConfig ? configFile : null];
  return files.filter((path) => path !== null);
}

/** Shown instead of a secret. */
export const hiddenValue = '(hidden)';

/** Other settings of the section are not jobs. */
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
  let description =
    databaseUrl === null ? "SQLite in the archive's .oddslake" : 'the database of ODDSLAKE_DATABASE_URL';
  try {
    const location = parseDatabaseUrl(databaseUrl, file);
    if (databaseUrl !== null) description = location.kind === 'sqlite' ? `SQLite in ${location.path}` : 'PostgreSQL';
    const { inspectWorkspace } = await import('../server/workspace/database.ts');
    const pending = await inspectWorkspace(location);
    return { description, database: pending === null ? null : { pending } };
  } catch (error) {
    if (!(error instanceof OddslakeError)) throw error;
    return {
      description,
      database: { fault: error.message, exitCode: error.exitCode === exitCodes.usage ? 2 : 1 },
    };
  }
}

/** A setting that differs from the default. */
export interface NonDefaultSetting {
  readonly path: string;
  /** As JSON; `(hidden)` for a secret. */
  readonly value: string;
  /** Source: path of the config file, environment variable or flag. */
  readonly from: string;
}

export interface ScheduledJobFacts {
  readonly job: string;
  /** Next start, epoch ms; null if never. */
  readonly next: number | null;
}

export function judgeSettings(changed: readonly NonDefaultSetting[]): Finding {
  const { ok } = createFindings('settings', 'settings');
  return ok(
    changed.length === 0
      ? 'all have their defaults'
      : `${formatCount(changed.length, 'setting')} changed from the default:`,
  );
}

/** The finding if the settings cannot be read. Checks that depend on settings are skipped then. */
export const createUnreadableSettingsFinding = ({ message, exitCode }: OddslakeError): Finding =>
  createFindings('settings', 'settings').problem(
    exitCode,
    message,
    'All settings are in docs/SETTINGS.md and config/default.yaml.',
  );

export function judgeSchedule(jobs: readonly ScheduledJobFacts[]): Finding {
  const { ok } = createFindings('settings', 'schedule');
  const scheduled = jobs.filter((job): job is { job: string; next: number } => job.next !== null);
  return ok(
    scheduled.length === 0
      ? 'no jobs: oddslake schedule has nothing to run'
      : `${scheduled.map(({ job, next }) => `${job} next at ${formatIsoUtc(next)}`).join(', ')}, if oddslake schedule is running`,
  );
}

/** The database of `oddslake serve` and `oddslake keys`. */
export interface ServiceFacts {
  /** E.g. `SQLite in .oddslake`, `postgres://db.example/oddslake`; never with a password. */
  readonly description: string;
  /** Null if it does not exist yet; the first API key creates it. */
  readonly database: { readonly pending: number } | { readonly fault: string; readonly exitCode: 1 | 2 } | null;
}

export function judgeService({ description, database }: ServiceFacts): Finding {
  const { ok, problem } = createFindings('service', 'database');
  if (database === null) return ok(`${description}, not created yet: oddslake keys create creates it`);
  if ('fault' in database)
    return problem(
      database.exitCode,
      database.fault,
      'Check ODDSLAKE_DATABASE_URL, and that the database is running. Only oddslake serve, keys and tokens use it.',
    );
  return database.pending === 0
    ? ok(description)
    : ok(`${description}, of an older version: the next oddslake serve upgrades it`);
}
