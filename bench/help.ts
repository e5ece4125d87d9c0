import type { Bench } from './bench.ts';
import { alternate, type Outcome, summarise } from './harness.ts';
import type { Measured } from './measure.ts';
import { type Report, timeText } from './results.ts';
import { pairRatios } from './statistics.ts';

/** Compares `oddslake --help` with an empty Node program, the lower bound for any program on Node. */

const goalMs = 150;
const input = '–';

export async function benchHelp(bench: Bench): Promise<Report> {
  const { folder: cwd, env } = bench;
  const contenders = [
    { name: 'oddslake --help', out: null, command: { argv: [bench.launcher, '--help'] as const, cwd, env } },
    { name: 'empty Node', out: null, command: { argv: [process.execPath, '--eval', '0'] as const, cwd, env } },
  ];
  const [ours, bare] = (await alternate(contenders, bench)) as [Outcome, Outcome];
  const wall = (outcome: Outcome): number[] | null =>
    'runs' in outcome ? outcome.runs.map(({ wallMs }) => wallMs) : null;
  const medians = (outcome: Outcome): Measured | null => ('runs' in outcome ? summarise(outcome.runs) : null);
  const describe = (outcome: Outcome): string => {
    const of = medians(outcome);
    return of === null ? '–' : timeText(of.wallMs);
  };
  const [ourWall, bareWall] = [wall(ours), wall(bare)];
  return {
    failed: [ours, bare].filter((outcome) => 'failed' in outcome).map(({ name }) => name),
    comparisons: [
      {
        what: 'start-up, --help',
        input,
        ours: describe(ours),
        peer: { name: bare.name, figure: describe(bare) },
        ratio: ourWall === null || bareWall === null ? null : pairRatios(ourWall, bareWall),
        goal: { text: `under ${goalMs} ms`, met: (ms) => ms < goalMs },
        value: medians(ours)?.wallMs ?? null,
        missing: 'failed' in ours ? `oddslake ${ours.failed}` : null,
      },
    ],
    timings: [ours, bare].flatMap((outcome) =>
      'runs' in outcome
        ? [{ what: 'start-up', input, name: outcome.name, medians: medians(outcome)!, runs: outcome.runs.length }]
        : [],
    ),
  };
}
