import { createLayout } from '../archive/format/layout.ts';
import { inspectUnmatchedSelectors } from '../archive/read/unmatched-selectors.ts';
import { type ExitCode, exitCodes, OddslakeError } from '../base/errors.ts';
import { formatCount } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';
import { planSourceRuns } from '../collector/run/source-runs.ts';
import type { Context } from '../context/context.ts';
import { type Environment, settingSchemas } from '../settings/layers.ts';
import type { ChosenSetting } from '../settings/load.ts';
import { type ArchiveFacts, judgeArchive, probeArchive, valueOrNull } from './check-archive.ts';
import { judgeDisk, probeDisk } from './check-disk.ts';
import { judgeMachine, probeMachine } from './check-machine.ts';
import { checkService } from './check-service.ts';
import { judgeUpstream, probeUpstream } from './check-upstream.ts';
import { type CheckName, checkGroups, computeDoctorExitCode, type Finding, ok, problem, warning } from './finding.ts';

/** What `doctor --json` prints. Times are epoch milliseconds. */
export interface Diagnosis {
  readonly version: string;
  readonly checked_at: number;
  /** Exit code of the problem that a run would encounter first. With --strict, warnings alone give 4. */
  readonly exit_code: ExitCode;
  /** Number of findings that require action. */
  readonly problems: number;
  readonly warnings: number;
  readonly findings: readonly Finding[];
  /** Settings that differ from the default, with their sources. Secrets are hidden. */
  readonly settings: readonly ChosenSetting[];
}

interface DoctorOptions {
  readonly nonDefaultSettings: readonly ChosenSetting[];
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
  const root = settings.archive.output;
  let archive: ArchiveFacts | undefined;
  // The name is used for the finding if a check throws. The archive is first, because other checks use its facts.
  const checks: readonly (readonly [CheckName, () => Finding[] | Promise<Finding[]>])[] = [
    [
      'archive',
      () => {
        archive = probeArchive(context);
        return judgeArchive(archive, clock.nowMs(), settings.service.lagSecondsMax * 1000);
      },
    ],
    ['node', () => judgeMachine(probeMachine(clock))],
    [
      'space',
      () => {
        const manifest = valueOrNull(archive?.manifest ?? null)?.manifest ?? null;
        return judgeDisk(probeDisk(root, manifest, listSecretFiles(context, nonDefaultSettings), clock.nowMs()));
      },
    ],
    ['settings', () => [judgeSettings(nonDefaultSettings)]],
    ['schedule', async () => [judgeSchedule(await readScheduledJobs(context))]],
    ['selection', () => checkSelectors(context)],
    [
      'address',
      async () => {
        const privateFolder = archive?.kind === 'archive' ? createLayout(root).privateFolder : null;
        const lastSummary = valueOrNull(archive?.state ?? null)?.lastRequestingSummary ?? null;
        const upstreamFindings: Finding[] = [];
        for (const one of planSourceRuns(context, [], false)) {
          // The last run collected one source only.
          const lastRunSummary = one.source === null ? lastSummary : null;
          const facts = await probeUpstream(one.context, { isOnline, env, privateFolder, lastRunSummary });
          upstreamFindings.push(...judgeUpstream(facts, settings.poll.futureSkewSeconds * 1000));
        }
        return upstreamFindings;
      },
    ],
    ['database', () => checkService(context)],
  ];
  const findings: Finding[] = [];
  for (const [name, check] of checks) {
    try {
      findings.push(...(await check()));
    } catch (error) {
      context.signal.throwIfAborted();
      const exitCode = error instanceof OddslakeError ? error.exitCode : exitCodes.unexpected;
      findings.push(problem(name, exitCode, `could not be checked: ${(error as Error).message}`, 'Fix this first.'));
    }
  }
  return buildDiagnosis(context, findings, nonDefaultSettings);
}

/** The diagnosis if the settings cannot be read. Checks that depend on settings are skipped. */
export function diagnoseUnreadableSettings(
  { message, exitCode }: OddslakeError,
  context: Pick<Context, 'version' | 'clock' | 'strict'>,
): Diagnosis {
  const action = 'All settings are in docs/SETTINGS.md and config/default.yaml.';
  const findings = [...judgeMachine(probeMachine(context.clock)), problem('settings', exitCode, message, action)];
  return buildDiagnosis(context, findings, []);
}

function buildDiagnosis(
  { version, clock, strict }: Pick<Context, 'version' | 'clock' | 'strict'>,
  findings: readonly Finding[],
  settings: readonly ChosenSetting[],
): Diagnosis {
  const count = (severity: Finding['severity']): number => findings.filter((one) => one.severity === severity).length;
  const groups = Object.keys(checkGroups);
  return {
    version,
    checked_at: clock.nowMs(),
    exit_code: computeDoctorExitCode(findings, strict),
    problems: count('action_required'),
    warnings: count('warning'),
    findings: findings.toSorted((a, b) => groups.indexOf(a.group) - groups.indexOf(b.group)),
    settings,
  };
}

/** Files that contain a secret: key files, and the config file if it has one. */
function listSecretFiles({ settings }: Context, changed: readonly ChosenSetting[]): string[] {
  const { configFile, upstream, sources, repair } = settings;
  const isInConfig = changed.some(({ value, from }) => value === '(hidden)' && from === configFile);
  const ofSources = sources.map((source) => source.upstream.apiKeyFile);
  const files = [upstream.apiKeyFile, ...ofSources, repair.fromApiKeyFile, isInConfig ? configFile : null];
  return files.filter((path) => path !== null);
}

export const judgeSettings = (changed: readonly ChosenSetting[]): Finding =>
  ok(
    'settings',
    changed.length === 0
      ? 'all have their defaults'
      : `${formatCount(changed.length, 'setting')} changed from the default:`,
  );

/** The selectors that match nothing, which is no error: a category may come tomorrow. Empty without selectors. */
function checkSelectors(context: Context): Finding[] {
  const { settings } = context;
  const runs = settings.symbols.length > 0 ? [] : planSourceRuns(context, [], false);
  const rules = runs.map((run) => ({ source: run.source, ...run.context.settings.source }));
  const count = rules.reduce((sum, { include, exclude }) => sum + include.length + exclude.length, 0);
  if (count === 0) return [];
  const unmatched = rules.flatMap(({ source, ...rest }) =>
    inspectUnmatchedSelectors(settings.archive.output, source, rest).map((text) =>
      source === null ? text : `${source}: ${text}`,
    ),
  );
  return unmatched.length === 0
    ? [ok('selection', formatCount(count, 'selector'))]
    : unmatched.map((text) =>
        warning(
          'selection',
          text.replace(/\.(?=$| \()/, ''),
          'Check the value: oddslake symbols shows those that are known.',
        ),
      );
}

/** A job and its next start, epoch ms; null if never. */
type ScheduledJob = readonly [job: string, next: number | null];

async function readScheduledJobs({ settings, clock }: Context): Promise<ScheduledJob[]> {
  const { parseCron } = await import('../settings/cron.ts');
  return Object.entries(settings.schedule).flatMap(([job, cron]): ScheduledJob[] =>
    // Other settings of the section are not jobs.
    settingSchemas.get(`schedule.${job}`)?.kind === 'cron' && typeof cron === 'string'
      ? [[job, parseCron(cron).findNext(clock.nowMs())]]
      : [],
  );
}

export function judgeSchedule(jobs: readonly ScheduledJob[]): Finding {
  const starts = jobs.flatMap(([job, next]) => (next === null ? [] : [`${job} next at ${formatIsoUtc(next)}`]));
  return ok(
    'schedule',
    starts.length === 0
      ? 'no jobs: oddslake schedule has nothing to run'
      : `${starts.join(', ')}, if oddslake schedule is running`,
  );
}
