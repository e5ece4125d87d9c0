import { formatThousands } from '../../core/format-thousands.ts';
import { formatIsoUtc } from '../../core/time.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Summary } from '../summary.ts';

/** Where a run was, as its summary does not say it. */
export interface RunLocation {
  readonly host: string;
  /** The archive's root. */
  readonly archive: string;
}

/** Whether a run's end is told. Somebody who stops one at the terminal knows that it is stopped. */
export function shouldNotify({ exit_code, warnings_count }: Summary, when: Settings['notify']['when']): boolean {
  if (exit_code === 130) return false;
  return when === 'always' || exit_code !== 0 || (when === 'warning' && warnings_count > 0);
}

/** Discord takes 2,000 characters, and a line that is read on a telephone fewer. */
const textLengthMax = 1000;
const reasonLengthMax = 300;

/**
 * What is sent: `text` is what Slack, Mattermost and their like show, `content` what Discord shows, the rest is for
 * programs. Times are ISO 8601 in UTC.
 */
export function buildNotification(summary: Summary, { host, archive }: RunLocation) {
  const { job, outcome, exit_code, error, run_id, version, generation, watermark, ticks, symbols } = summary;
  const text = neutralizeMarkup(formatNotificationText(summary, host));
  return {
    text,
    content: text,
    allowed_mentions: { parse: [] as string[] },
    job,
    outcome,
    exit_code,
    error,
    next_action: summary.next_action ?? null,
    run_id,
    host,
    archive,
    version,
    started_at: formatIsoUtc(summary.started_at),
    finished_at: formatIsoUtc(summary.finished_at),
    missing: summary.failures.map(({ symbol, from, to, reason }) => ({
      symbol,
      from: from === null ? null : formatIsoUtc(from),
      to: to === null ? null : formatIsoUtc(to),
      reason: truncateText(reason, reasonLengthMax),
    })),
    missing_count: summary.failures_count,
    damaged: summary.damaged.map(({ path, kind, found_at }) => ({ path, kind, found_at: formatIsoUtc(found_at) })),
    damaged_count: summary.damaged_count,
    warnings: summary.warnings.map((one) => truncateText(one, reasonLengthMax)),
    warnings_count: summary.warnings_count,
    suspended: symbols.suspended,
    verdict: summary.verdict?.state ?? null,
    ticks,
    generation,
    watermark: watermark === null ? null : formatIsoUtc(watermark),
  };
}

const outcomeTexts: Record<Summary['outcome'], string> = {
  done: 'done',
  failed: 'failed',
  usage: 'was not started',
  credential: 'stopped: the key was refused',
  incomplete: 'done, but incomplete',
  busy: 'did not publish: another run is writing',
  damaged: 'ended: the archive is damaged',
  unreachable: 'failed: the upstream could not be reached',
  interrupted: 'was stopped; what was accepted is kept',
};

/** One line: what ended how and where, why, what is missing, what to do. */
function formatNotificationText({ job, outcome, exit_code, error, ticks, ...more }: Summary, host: string): string {
  const [first] = more.failures;
  const others = more.failures_count > 1 ? `, and ${formatThousands(more.failures_count - 1)} more` : '';
  const missing =
    first === undefined
      ? []
      : [`Missing: ${first.symbol ?? job} (${truncateText(first.reason, reasonLengthMax)})${others}.`];
  const [warning] = more.warnings;
  return [
    `oddslake ${job} on ${host}: ${outcomeTexts[outcome]} (exit ${exit_code}).`,
    ...(error === null ? [] : [error]),
    ...missing,
    ...(more.symbols.suspended === 0 ? [] : [formatSuspended(more.symbols.suspended)]),
    ...(exit_code === 0 && more.run_id !== null
      ? [`${formatThousands(ticks.accepted)} new ticks, generation ${more.generation}.`]
      : []),
    ...(exit_code === 0 && warning !== undefined ? [`Warning: ${truncateText(warning, reasonLengthMax)}`] : []),
    ...(more.next_action ? [`Next: ${more.next_action}`] : []),
  ].join(' ');
}

const formatSuspended = (count: number): string =>
  `${formatThousands(count)} active ${count === 1 ? 'symbol is' : 'symbols are'} suspended: oddslake symbols retry.`;

/** A text of the service's may stand in it: nobody is called by it, nothing is linked, and it stays one line. */
const neutralizeMarkup = (text: string): string =>
  truncateText(text.replace(/\p{Cc}+/gu, ' '), textLengthMax)
    .replaceAll('<', '‹')
    .replaceAll('>', '›')
    .replace(/@(?=\S)/g, '@\u200b');

/** Half of a character at the cut would be no text any more, which strict receivers refuse whole. */
const truncateText = (text: string, length: number): string =>
  text.length > length ? `${text.slice(0, length - 1).replace(/[\ud800-\udbff]$/, '')}…` : text;
