import { formatThousands } from '../base/format-quantity.ts';
import { type Html, html } from '../base/html.ts';
import { hourMs } from '../base/window.ts';
import type { PastDrift, PastRun } from './data/past-run.ts';
import type { ReportData } from './data/report-data.ts';
import { describeRun, runMarks, toRunMark } from './health-status.ts';
import { type HtmlColumn, type ReportPart, renderFigure, renderLongTable, renderSection } from './page-parts.ts';
import { renderLinesPlot } from './time-plots.ts';
import { formatLength, formatMinute } from './time-spans.ts';

const stripRunsMax = 60;
const tableRowsMax = 10;
const tableRowsAllMax = 60;
const driftsMax = 10;
const driftsAllMax = 100;
const noValue = '–';

/** The last runs: a strip of how each ended, and a table of what each brought. */
export function renderRunsSection({ runs, nowMs }: ReportData): ReportPart[] {
  if (runs.length === 0) return [{ name: 'Runs', text: 'Nothing was run yet.' }];
  const last = runs.slice(-stripRunsMax);
  const items = last.map((run) => {
    const { sign, word, kind } = toRunMark(run);
    const said = `${formatMinute(run.startedAt)} ${run.job}: ${word}`;
    return html`<li class="${kind}" title="${said}"><span aria-hidden="true">${sign}</span><span class="unseen">${said}</span></li>
`;
  });
  const kinds = [...new Map(last.map((run) => [toRunMark(run).sign, toRunMark(run)])).values()];
  const keys = kinds.map(({ sign, kind }) => {
    const word = Object.values(runMarks).find((mark) => mark.sign === sign)!.word;
    return html`<span class="key"><span class="mark ${kind}" aria-hidden="true">${sign}</span>${word}</span>\n`;
  });
  const first = last[0]!.startedAt;
  const said = `How the last ${last.length === 1 ? 'run' : `${last.length} runs`} ended, the latest at the end, since ${formatMinute(first)}`;
  return [
    renderSection(
      'Runs',
      [
        html`<p class="note">${said}</p>
<ol class="strip" aria-label="${said}">
${items}</ol>
<p class="keys">${keys}</p>
`,
        html`<div class="runs">${renderRunsTable(runs.slice(-tableRowsAllMax).toReversed(), nowMs)}</div>\n`,
      ],
      true,
    ),
  ];
}

function renderRunsTable(rows: readonly PastRun[], nowMs: number): Html[] {
  const count = (of: (summary: NonNullable<PastRun['summary']>) => number) => (run: PastRun) =>
    run.summary === null ? noValue : formatThousands(of(run.summary));
  const columns: HtmlColumn<PastRun>[] = [
    { name: 'Started', kind: 'left', format: ({ startedAt }) => formatMinute(startedAt) },
    { name: 'Job', kind: 'left', format: ({ job }) => job },
    {
      name: 'Outcome',
      kind: 'left',
      format: (run) => `${toRunMark(run).sign} ${toRunMark(run).word}`,
      isLoss: (run) => ['bad', 'poor'].includes(toRunMark(run).kind),
    },
    { name: 'Took', format: ({ startedAt, finishedAt }) => formatLength((finishedAt ?? nowMs) - startedAt) },
    { name: 'New ticks', format: count(({ accepted }) => accepted) },
    { name: 'Conflicts', format: count(({ conflicts }) => conflicts) },
    { name: 'Requests', format: count(({ requests }) => requests) },
    { name: 'Behind', format: (run) => (computeLag(run) === null ? noValue : formatLength(computeLag(run)!)) },
    { name: 'What it said', kind: 'text', format: (run) => describeRun(run) },
  ];
  return renderLongTable('The last runs', columns, rows, {
    shown: tableRowsMax,
    rest: `${rows.length - tableRowsMax} runs before`,
  });
}

/** How far what is covered lay behind when it ended; null where it told no watermark. */
const computeLag = ({ finishedAt, summary }: PastRun): number | null =>
  finishedAt === null || summary === null || summary.watermark === null
    ? null
    : Math.max(0, finishedAt - summary.watermark);

/** How far the archive lay behind at the end of each run. */
export function renderLagSection({ runs, nowMs, rules }: ReportData): ReportPart[] {
  const points = runs.flatMap((run) => {
    const lag = computeLag(run);
    return lag === null ? [] : [{ t: run.finishedAt!, lag }];
  });
  if (points.length === 0) return [{ name: 'Lag', text: 'No run has told how far the archive reaches.' }];
  const most = points.reduce((max, { lag }) => Math.max(max, lag), 0);
  const [unit, unitMs] =
    most > 96 * hourMs ? ['days', 24 * hourMs] : most > 3 * hourMs ? ['hours', hourMs] : ['minutes', 60_000];
  const last = points.at(-1)!;
  if (points.length === 1)
    return [{ name: 'Lag', text: `The archive lay ${formatLength(last.lag)} behind at the end of its only run.` }];
  const said = `How far the archive lay behind at the end of each run, in ${unit}`;
  const line = {
    points: points.map(({ t, lag }) => ({ t, value: lag / unitMs })),
    colour: 'var(--accent)',
    look: 'dots' as const,
  };
  return [
    renderSection('Lag', [
      renderFigure(
        `${said}. Up to ${formatLength(rules.lagMsMax)} are allowed for.`,
        renderLinesPlot(
          `${said}: ${formatLength(last.lag)} at the last, ${formatLength(most)} at most`,
          unit,
          computeShownWindow(points, nowMs),
          [line],
        ),
      ),
    ]),
  ];
}

/** From the first point to now, and a day at least. */
const computeShownWindow = (points: readonly { readonly t: number }[], nowMs: number) => ({
  from: Math.min(points[0]!.t, nowMs - 24 * hourMs),
  to: Math.max(nowMs, points.at(-1)!.t),
});

/** How fast each run asked, against the limit. */
export function renderRequestsSection({ runs, nowMs, rules }: ReportData): ReportPart[] {
  const asked = runs.flatMap(({ summary, startedAt, finishedAt }) => {
    if (summary === null || finishedAt === null || summary.requests === 0) return [];
    const { rate, requests } = summary;
    const limit = rate?.allowedPerSecond ?? rules.requestsPerSecond;
    const mean = requests / Math.max(0.001, (finishedAt - startedAt) / 1000);
    return [{ t: finishedAt, limit, value: Math.min(rate === null ? mean : rate.used * limit, limit), rate }];
  });
  const last = asked.at(-1);
  if (last === undefined) return [{ name: 'Requests', text: 'No run has asked the service for anything.' }];
  if (asked.length === 1) {
    const text = `The only run that asked made ${last.value.toFixed(1)} requests a second while it had something to ask and was not held back; ${last.limit} are allowed.`;
    return [{ name: 'Requests', text }];
  }
  const said =
    'Requests a second in each run, while it had something to ask and was not held back (dots), and the limit at that time (dashed)';
  const limits = [...asked.map(({ t, limit }) => ({ t, value: limit })), { t: nowMs, value: last.limit }];
  const used =
    last.rate === null
      ? ''
      : ` The last run used ${Math.round(last.rate.used * 100)} % of it; requests stood ready and waited for ${formatLength(last.rate.waitedMs)}.`;
  return [
    renderSection('Requests', [
      renderFigure(
        `${said}.${used}`,
        renderLinesPlot(
          `${said}: ${last.value.toFixed(1)} of ${last.limit} at the last`,
          'requests a second',
          computeShownWindow(asked, nowMs),
          [
            { points: limits, colour: 'var(--gap)', look: 'steps' },
            { points: asked, colour: 'var(--accent)', look: 'dots' },
          ],
        ),
      ),
    ]),
  ];
}

/** Fields of the service's answers that changed, by the runs that noticed. */
export function renderDriftSection({ runs }: ReportData): ReportPart[] {
  const found = runs
    .toReversed()
    .flatMap(({ startedAt, summary }) => (summary?.drifts ?? []).map((drift) => ({ startedAt, drift })));
  if (found.length === 0)
    return [
      { name: 'Schema drift', text: "The service's answers had the same fields and types in all of these runs." },
    ];
  const types = (of: readonly string[]): string => of.join(' or ') || noValue;
  const columns: HtmlColumn<{ startedAt: number; drift: PastDrift }>[] = [
    { name: 'Noticed', kind: 'left', format: ({ startedAt }) => formatMinute(startedAt) },
    { name: 'Answers of', kind: 'left', format: ({ drift }) => drift.resource },
    { name: 'Field', kind: 'text', format: ({ drift }) => drift.field || 'a whole record' },
    { name: 'Change', kind: 'left', format: ({ drift }) => drift.change },
    { name: 'Before', kind: 'left', format: ({ drift }) => types(drift.before) },
    { name: 'Now', kind: 'left', format: ({ drift }) => types(drift.now) },
  ];
  const rest = `${formatThousands(Math.min(found.length, driftsAllMax) - driftsMax)} before`;
  return [
    renderSection(
      'Schema drift',
      [
        html`<p class="note">Fields of the service's answers that were not as before: ${formatThousands(found.length)}.</p>\n`,
        ...renderLongTable('Schema drift', columns, found.slice(0, driftsAllMax), { shown: driftsMax, rest }),
      ],
      true,
    ),
  ];
}
