import type { Summary } from '../archive/journal/run-summary.ts';
import type { PastRun } from '../archive/journal/runs.ts';
import { formatDuration, formatNumber, formatRate, shortenText } from '../base/format-quantity.ts';
import { type Html, html } from '../base/html.ts';
import { formatMinute } from '../base/time.ts';
import { chartPointsMin } from './archive-days.ts';
import type { ReportData } from './data/report-data.ts';
import { describeRun, runMarks, toRunMark } from './growth-and-runs.ts';
import { type HtmlColumn, type ReportPart, renderFigure, renderLongTable, renderSection } from './page-parts.ts';
import { chooseTimeUnit, renderLinesPlot } from './time-plots.ts';

const stripRunsMax = 60;
const tableRowsMax = 10;
const tableRowsAllMax = 60;
const noValue = '–';
/** A rate limit is drawn if it is at most this many times the greatest rate. */
const limitRatioMax = 5;
/** Maximum length of a run's message in the table, in characters. */
const messageLettersMax = 160;

/** The last runs: a strip of outcomes and a table. */
export function renderRunsSection({ runs, nowMs }: ReportData): ReportPart[] {
  if (runs.length === 0) return [{ name: 'Runs', text: 'No runs yet.' }];
  const last = runs.slice(-stripRunsMax);
  const items = last.map((run) => {
    const { sign, word, kind } = toRunMark(run);
    const caption = `${formatMinute(run.startedAt)} ${run.job}: ${word}`;
    return html`<li class="${kind}" title="${caption}"><span aria-hidden="true">${sign}</span><span class="unseen">${caption}</span></li>
`;
  });
  const kinds = [...new Map(last.map((run) => [toRunMark(run).sign, toRunMark(run)])).values()];
  const legend = kinds.map(({ sign, kind }) => {
    const word = Object.values(runMarks).find((mark) => mark.sign === sign)!.word;
    return html`<span class="key"><span class="mark ${kind}" aria-hidden="true">${sign}</span>${word}</span>\n`;
  });
  const first = last[0]!.startedAt;
  const caption = `Outcome of the last ${last.length === 1 ? 'run' : `${last.length} runs`}, latest last, since ${formatMinute(first)}`;
  return [
    renderSection(
      'Runs',
      [
        html`<p class="note">${caption}</p>
<ol class="strip" aria-label="${caption}">
${items}</ol>
<p class="keys">${legend}</p>
`,
        html`<div class="runs">${renderRunsTable(runs.slice(-tableRowsAllMax).toReversed(), nowMs)}</div>\n`,
      ],
      true,
    ),
  ];
}

function renderRunsTable(rows: readonly PastRun[], nowMs: number): Html[] {
  const count = (getCount: (summary: Summary) => number) => (run: PastRun) =>
    run.summary === null ? noValue : formatNumber(getCount(run.summary));
  const columns: HtmlColumn<PastRun>[] = [
    { name: 'Started', kind: 'left', format: ({ startedAt }) => formatMinute(startedAt) },
    { name: 'Job', kind: 'left', format: ({ job }) => job },
    {
      name: 'Outcome',
      kind: 'left',
      format: (run) => `${toRunMark(run).sign} ${toRunMark(run).word}`,
      isLoss: (run) => ['bad', 'poor'].includes(toRunMark(run).kind),
    },
    { name: 'Duration', format: ({ startedAt, finishedAt }) => formatDuration((finishedAt ?? nowMs) - startedAt) },
    { name: 'New ticks', format: count(({ ticks }) => ticks.accepted) },
    { name: 'Conflicts', format: count(({ ticks }) => ticks.conflicts) },
    { name: 'Requests', format: count(({ requests }) => requests) },
    { name: 'Lag', format: (run) => (computeLag(run) === null ? noValue : formatDuration(computeLag(run)!)) },
    { name: 'Message', kind: 'text', format: (run) => shortenText(describeRun(run), messageLettersMax) },
  ];
  return renderLongTable('The last runs', columns, rows, {
    shown: tableRowsMax,
    rest: `${rows.length - tableRowsMax} earlier runs`,
  });
}

/** Lag of coverage at the end of a run, in ms; null if its summary has no watermark. */
function computeLag({ finishedAt, summary }: PastRun): number | null {
  const reached = summary?.reached ?? summary?.watermark ?? null;
  return finishedAt === null || reached === null ? null : Math.max(0, finishedAt - reached);
}

/** Lag of coverage at the end of each run. */
export function renderLagSection({ runs, nowMs, rules }: ReportData): ReportPart[] {
  const points = runs.flatMap((run) => {
    const lag = computeLag(run);
    return lag === null ? [] : [{ t: run.finishedAt!, lag }];
  });
  if (points.length === 0) return [{ name: 'Lag', text: 'No run has reported a watermark.' }];
  const maxLag = points.reduce((max, { lag }) => Math.max(max, lag), 0);
  const [unit, unitMs] = chooseTimeUnit(maxLag);
  const last = points.at(-1)!;
  if (points.length === 1)
    return [{ name: 'Lag', text: `The lag was ${formatDuration(last.lag)} at the end of the only run.` }];
  if (points.length < chartPointsMin) {
    const text = `The lag was ${formatDuration(last.lag)} at the end of the last run, and at most ${formatDuration(maxLag)} in ${points.length} runs.`;
    return [{ name: 'Lag', text }];
  }
  const caption = `Lag of coverage at the end of each run, in ${unit}`;
  const line = {
    points: points.map(({ t, lag }) => ({ t, value: lag / unitMs })),
    colour: 'var(--accent)',
    look: 'dots' as const,
  };
  return [
    renderSection('Lag', [
      renderFigure(
        `${caption}. The limit is ${formatDuration(rules.lagMsMax)}.`,
        renderLinesPlot(
          `${caption}: last ${formatDuration(last.lag)}, maximum ${formatDuration(maxLag)}`,
          unit,
          computeShownWindow(points, nowMs),
          [line],
        ),
      ),
    ]),
  ];
}

/** From the first point to now. */
const computeShownWindow = (points: readonly { readonly t: number }[], nowMs: number) => ({
  from: points[0]!.t,
  to: Math.max(nowMs, points.at(-1)!.t),
});

export function renderRequestsSection({ runs, nowMs, rules }: ReportData): ReportPart[] {
  const rates = runs.flatMap(({ summary, startedAt, finishedAt }) => {
    if (summary === null || finishedAt === null || summary.requests === 0) return [];
    const { rate, requests } = summary;
    const limit = rate?.allowed_per_second ?? rules.requestsPerSecond;
    const mean = requests / Math.max(0.001, (finishedAt - startedAt) / 1000);
    return [{ t: finishedAt, limit, value: Math.min(rate === undefined ? mean : rate.used * limit, limit), rate }];
  });
  const last = rates.at(-1);
  if (last === undefined) return [{ name: 'Requests', text: 'No run has sent requests.' }];
  if (rates.length < chartPointsMin) {
    const run = rates.length === 1 ? 'only run with requests' : 'last run';
    const text = `The ${run} sent ${formatRate(last.value)} requests per second while it was neither idle nor throttled; the limit is ${last.limit}.`;
    return [{ name: 'Requests', text }];
  }
  // A limit far above all rates would squeeze them into a line at the bottom.
  const maxRate = rates.reduce((max, { value }) => Math.max(max, value), 0);
  const isLimitNear = rates.every(({ limit }) => limit <= maxRate * limitRatioMax);
  const caption = isLimitNear
    ? 'Requests per second of each run, without idle and throttled time (dots), and the rate limit at that time (dashed)'
    : `Requests per second of each run, without idle and throttled time; the limit is ${formatRate(last.limit)}`;
  const limits = [...rates.map(({ t, limit }) => ({ t, value: limit })), { t: nowMs, value: last.limit }];
  const usedText =
    last.rate === undefined
      ? ''
      : ` The last run used ${Math.round(last.rate.used * 100)} % of the limit; requests waited ${formatDuration(last.rate.wait_ms)} on the rate limit.`;
  return [
    renderSection('Requests', [
      renderFigure(
        `${caption}.${usedText}`,
        renderLinesPlot(
          `${caption}: last ${formatRate(last.value)} of ${last.limit}`,
          'requests per second',
          computeShownWindow(rates, nowMs),
          [
            ...(isLimitNear ? [{ points: limits, colour: 'var(--gap)', look: 'steps' as const }] : []),
            { points: rates, colour: 'var(--accent)', look: 'dots' },
          ],
        ),
      ),
    ]),
  ];
}
