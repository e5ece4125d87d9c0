import { grouped } from '../core/format-thousands.ts';
import { type Html, html } from '../core/html.ts';
import type { PastDrift, PastRun } from '../reading/report/past-run.ts';
import type { Gathered } from '../reading/report/report-data.ts';
import type { Part } from './archive-parts.ts';
import { type Column, figure, longTable, section } from './page-parts.ts';
import { markOf, marks, storyOf } from './run-marks.ts';
import { linesPlot } from './time-plots.ts';
import { lengthOf, momentOf } from './time-spans.ts';

const stripMax = 60;
const tableMax = 10;
const tableAllMax = 60;
const driftsMax = 10;
const driftsAllMax = 100;
const noValue = '–';
const hourMs = 3_600_000;

/** The last runs: a strip of how each ended, and a table of what each brought. */
export function runsSection({ runs, nowMs }: Gathered): Part[] {
  if (runs.length === 0) return [{ name: 'Runs', text: 'Nothing was run yet.' }];
  const last = runs.slice(-stripMax);
  const items = last.map((run) => {
    const { sign, word, kind } = markOf(run);
    const said = `${momentOf(run.startedAt)} ${run.job}: ${word}`;
    return html`<li class="${kind}" title="${said}"><span aria-hidden="true">${sign}</span><span class="unseen">${said}</span></li>
`;
  });
  const kinds = [...new Map(last.map((run) => [markOf(run).sign, markOf(run)])).values()];
  const keys = kinds.map(({ sign, kind }) => {
    const word = Object.values(marks).find((mark) => mark.sign === sign)!.word;
    return html`<span class="key"><span class="mark ${kind}" aria-hidden="true">${sign}</span>${word}</span>\n`;
  });
  const first = last[0]!.startedAt;
  const said = `How the last ${last.length === 1 ? 'run' : `${last.length} runs`} ended, the latest at the end, since ${momentOf(first)}`;
  return [
    section(
      'Runs',
      [
        html`<p class="note">${said}</p>
<ol class="strip" aria-label="${said}">
${items}</ol>
<p class="keys">${keys}</p>
`,
        html`<div class="runs">${runsTable(runs.slice(-tableAllMax).toReversed(), nowMs)}</div>\n`,
      ],
      true,
    ),
  ];
}

function runsTable(rows: readonly PastRun[], nowMs: number): Html[] {
  const count = (of: (summary: NonNullable<PastRun['summary']>) => number) => (run: PastRun) =>
    run.summary === null ? noValue : grouped(of(run.summary));
  const columns: Column<PastRun>[] = [
    { name: 'Started', kind: 'left', of: ({ startedAt }) => momentOf(startedAt) },
    { name: 'Job', kind: 'left', of: ({ job }) => job },
    {
      name: 'Outcome',
      kind: 'left',
      of: (run) => `${markOf(run).sign} ${markOf(run).word}`,
      isLoss: (run) => ['bad', 'poor'].includes(markOf(run).kind),
    },
    { name: 'Took', of: ({ startedAt, finishedAt }) => lengthOf((finishedAt ?? nowMs) - startedAt) },
    { name: 'New ticks', of: count(({ accepted }) => accepted) },
    { name: 'Conflicts', of: count(({ conflicts }) => conflicts) },
    { name: 'Requests', of: count(({ requests }) => requests) },
    { name: 'Behind', of: (run) => (lagOf(run) === null ? noValue : lengthOf(lagOf(run)!)) },
    { name: 'What it said', kind: 'text', of: (run) => storyOf(run) },
  ];
  return longTable('The last runs', columns, rows, { shown: tableMax, rest: `${rows.length - tableMax} runs before` });
}

/** How far what is covered lay behind when it ended; null where it told no watermark. */
const lagOf = ({ finishedAt, summary }: PastRun): number | null =>
  finishedAt === null || summary === null || summary.watermark === null
    ? null
    : Math.max(0, finishedAt - summary.watermark);

/** How far the archive lay behind at the end of each run. */
export function lagSection({ runs, nowMs, rules }: Gathered): Part[] {
  const points = runs.flatMap((run) => {
    const lag = lagOf(run);
    return lag === null ? [] : [{ t: run.finishedAt!, lag }];
  });
  if (points.length === 0) return [{ name: 'Lag', text: 'No run has told how far the archive reaches.' }];
  const most = points.reduce((max, { lag }) => Math.max(max, lag), 0);
  const [unit, unitMs] =
    most > 96 * hourMs ? ['days', 24 * hourMs] : most > 3 * hourMs ? ['hours', hourMs] : ['minutes', 60_000];
  const last = points.at(-1)!;
  if (points.length === 1)
    return [{ name: 'Lag', text: `The archive lay ${lengthOf(last.lag)} behind at the end of its only run.` }];
  const said = `How far the archive lay behind at the end of each run, in ${unit}`;
  const line = {
    points: points.map(({ t, lag }) => ({ t, value: lag / unitMs })),
    colour: 'var(--accent)',
    look: 'dots' as const,
  };
  return [
    section('Lag', [
      figure(
        `${said}. Up to ${lengthOf(rules.lagMsMax)} are allowed for.`,
        linesPlot(
          `${said}: ${lengthOf(last.lag)} at the last, ${lengthOf(most)} at most`,
          unit,
          spanOf(points, nowMs),
          [line],
        ),
      ),
    ]),
  ];
}

/** From the first point to now, and a day at least. */
const spanOf = (points: readonly { readonly t: number }[], nowMs: number) => ({
  from: Math.min(points[0]!.t, nowMs - 24 * hourMs),
  to: Math.max(nowMs, points.at(-1)!.t),
});

/** How fast each run asked, against the limit. */
export function requestsSection({ runs, nowMs, rules }: Gathered): Part[] {
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
      : ` The last run used ${Math.round(last.rate.used * 100)} % of it; requests stood ready and waited for ${lengthOf(last.rate.waitedMs)}.`;
  return [
    section('Requests', [
      figure(
        `${said}.${used}`,
        linesPlot(
          `${said}: ${last.value.toFixed(1)} of ${last.limit} at the last`,
          'requests a second',
          spanOf(asked, nowMs),
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
export function driftSection({ runs }: Gathered): Part[] {
  const found = runs
    .toReversed()
    .flatMap(({ startedAt, summary }) => (summary?.drifts ?? []).map((drift) => ({ startedAt, drift })));
  if (found.length === 0)
    return [
      { name: 'Schema drift', text: "The service's answers had the same fields and types in all of these runs." },
    ];
  const types = (of: readonly string[]): string => of.join(' or ') || noValue;
  const columns: Column<{ startedAt: number; drift: PastDrift }>[] = [
    { name: 'Noticed', kind: 'left', of: ({ startedAt }) => momentOf(startedAt) },
    { name: 'Answers of', kind: 'left', of: ({ drift }) => drift.resource },
    { name: 'Field', kind: 'text', of: ({ drift }) => drift.field || 'a whole record' },
    { name: 'Change', kind: 'left', of: ({ drift }) => drift.change },
    { name: 'Before', kind: 'left', of: ({ drift }) => types(drift.before) },
    { name: 'Now', kind: 'left', of: ({ drift }) => types(drift.now) },
  ];
  const rest = `${grouped(Math.min(found.length, driftsAllMax) - driftsMax)} before`;
  return [
    section(
      'Schema drift',
      [
        html`<p class="note">Fields of the service's answers that were not as before: ${grouped(found.length)}.</p>\n`,
        ...longTable('Schema drift', columns, found.slice(0, driftsAllMax), { shown: driftsMax, rest }),
      ],
      true,
    ),
  ];
}
