import type { Archive } from '../../src/archive/archive.ts';
import type { Manifest } from '../../src/archive/format/manifest.ts';
import { readRecordedDamage } from '../../src/archive/journal/published-files.ts';
import { readArchiveStatus } from '../../src/archive/read/archive-status.ts';
import { type GapList, listGaps } from '../../src/archive/read/gaps.ts';
import { type Judgement, judge } from '../../src/archive/read/judge.ts';
import { readStatus } from '../../src/archive/read/status.ts';
import { formatGaps } from '../../src/cli/format-archive.ts';
import { openScheduleMonitor } from '../../src/collector/schedule/health-checks.ts';
import { openJobStatusBoard } from '../../src/collector/schedule/job-status.ts';
import type { Context } from '../../src/context/context.ts';
import { openConfiguredArchive, toCompletenessRules } from '../../src/context/open-configured.ts';
import { judgeArchive, probeArchive } from '../../src/doctor/check-archive.ts';
import type { Sample } from '../../src/metrics/metric-definitions.ts';
import { readReportData } from '../../src/report/data/report-data.ts';
import { dayMs } from './world.ts';

/** The state of an archive on every surface at one time. */
export interface Surfaces {
  readonly manifest: Manifest;
  readonly status: ReturnType<typeof readStatus>;
  readonly gaps: GapList;
  readonly gapsText: string;
  /** What the judge finds, as `status` prints it. */
  readonly judgement: Judgement;
  /** The same on the report, the port of a schedule and in the doctor, as one text a finding. The report may be left out. */
  readonly judged: Readonly<Record<'health' | 'doctor', readonly string[]> & { report?: readonly string[] }>;
  /** From the port of a schedule. */
  readonly metrics: readonly Sample[];
  readonly health: { readonly status: number; readonly archiveState: string | null };
  /** Paths known to be damaged. */
  readonly damaged: ReadonlySet<string>;
}

export async function readSurfaces(context: Context): Promise<Surfaces> {
  const archive = openConfiguredArchive(context, false);
  try {
    return await read(context, archive);
  } finally {
    archive.close();
  }
}

/** How often the report was read with findings of these kinds. */
const reportsRead = new Map<string, number>();
/** Its other figures, of which nothing is expected here, take two fifths of the time of a story. */
const reportsReadMax = 3;

async function read(context: Context, archive: Archive): Promise<Surfaces> {
  const nowMs = context.clock.nowMs();
  const completenessRules = toCompletenessRules(context.settings);
  const status = readStatus(archive, completenessRules, nowMs);
  const gaps = listGaps(archive, { from: null, to: null, symbols: [] }, completenessRules, nowMs);
  const { overlapMinutes, overlapMinutesMax } = context.settings.poll;
  const overlaps = { overlapMs: overlapMinutes * 60_000, overlapMsMax: overlapMinutesMax * 60_000 };
  const rules = {
    judged: completenessRules,
    days: 60,
    lagMsMax: 2 * dayMs,
    requestsPerSecond: 5,
    catalogueUrl: null,
    ...overlaps,
  };
  const doctor = judgeArchive(probeArchive(context), nowMs, rules.lagMsMax);
  const { readyFindings, ...port } = await readPort(context);
  const judgement = judge({ nowMs, lagMsMax: rules.lagMsMax, status: readArchiveStatus(archive, nowMs) });
  const kinds = judgement.findings.map(({ kind }) => kind).join();
  const reads = (reportsRead.get(kinds) ?? 0) + 1;
  reportsRead.set(kinds, reads);
  const report =
    reads > reportsReadMax ? null : await readReportData(archive, rules, { nowMs, random: context.random });
  // Doctor shows the advice of a finding with it.
  const withoutAdvice = (text: string): string =>
    judgement.findings.find(({ message, advice }) => text === `${message}; ${advice}`)?.message ?? text;
  return {
    manifest: archive.readManifest(),
    status,
    gaps,
    gapsText: formatGaps(gaps),
    judgement,
    judged: {
      ...(report !== null && { report: report.judgement.findings.map(({ message }) => message) }),
      health: readyFindings,
      doctor: doctor.filter(({ check }) => check === 'finding').map(({ message }) => withoutAdvice(message)),
    },
    ...port,
    damaged: new Set(readRecordedDamage(archive.state.db).map(({ path }) => path)),
  };
}

async function readPort(context: Context) {
  let url = '';
  const info = (fields: object): void => {
    if ('url' in fields) url = String(fields.url);
  };
  const log = { ...context.log, info };
  const board = openJobStatusBoard([], dayMs, context.clock.nowMs());
  const watch = await openScheduleMonitor({ ...context, log }, 0, board);
  try {
    const [metrics, ready] = await Promise.all([fetch(`${url}/metrics`), fetch(`${url}/readyz`)]);
    const { archive_state, findings } = (await ready.json()) as {
      archive_state: string | null;
      findings: { message: string }[];
    };
    return {
      metrics: listSamples(await metrics.text()),
      health: { status: ready.status, archiveState: archive_state },
      readyFindings: findings.map(({ message }) => message),
    };
  } finally {
    watch.close();
  }
}

/** The samples of the program, with their labels. */
const listSamples = (text: string): Sample[] =>
  [...text.matchAll(/^(oddslake_\w+)(?:\{(.*)\})? (\S+)$/gm)].map(([, name, labels = '', value]) => ({
    name: name!,
    labels: Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, label]) => [key!, label!])),
    value: Number(value),
  }));
