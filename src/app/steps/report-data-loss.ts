import { countPublishedTicks } from '../../archive/count-lost-ticks.ts';
import { markLostReported, type RecordedLoss, readLostWindows } from '../../state/data-loss.ts';
import type { Run } from '../run.ts';
import { formatNameList } from './poll-steps.ts';
import { toLossKey } from './track-lost-windows.ts';

/**
 * Tells, at the end of a run, which windows are still lost: a failure, once, of the run that tried to have one again and
 * did not bring back what was there; a warning in all others. Comes last: what is told to have failed is not told again.
 * @throws DamageError where a part that is to be counted is damaged
 */
export function reportDataLoss(run: Run): void {
  const { archive, context } = run;
  const lost = readLostWindows(archive.state.db).filter(({ dataset }) => dataset === 'ticks');
  const tried = lost.filter((loss) => loss.reportedAt === null && isTried(run, loss));
  const held = new Map(countPublishedTicks(archive, tried).map((n, i) => [tried[i]!, n]));
  // Where all are back, in answers that were published apart, only the next one can claim them.
  const news = new Set(tried.filter((loss) => held.get(loss)! < loss.ticks));
  for (const loss of news) {
    const { symbol, from, to, ticks } = loss;
    run.failures.push({ symbol, from, to, reason: `lost: ${held.get(loss)} of ${ticks} ticks came back` });
  }
  markLostReported(archive.state.db, [...news], context.clock.nowMs());
  const known = lost.filter((loss) => !news.has(loss));
  if (known.length === 0) return;
  const symbols = [...new Set(known.map(({ symbol }) => symbol))];
  run.warnings.push(
    `${known.length} ${known.length === 1 ? 'window' : 'windows'} of ${formatNameList(symbols, 'symbol')} lost ticks that were published once: oddslake gaps lists them; verify --repair takes what .oddslake/raw still has of them and asks for the rest, and backfill asks too.`,
  );
}

const isTried = ({ lostWindows: lost }: Run, loss: RecordedLoss): boolean =>
  lost.tried.has(toLossKey(loss)) || lost.confirmedLost.has(toLossKey(loss));
