import type { AcceptedWindow } from '../../archive/format/coverage.ts';
import { acceptWindow, revokeAccepted } from '../../archive/journal/gap-records.ts';
import { readSymbol } from '../../archive/journal/symbols.ts';
import type { Archive } from '../../archive/open-archive.ts';
import { listGaps } from '../../archive/read/gaps.ts';
import { UsageError } from '../../base/errors.ts';
import { formatIsoUtc } from '../../base/time.ts';
import type { Window } from '../../base/window.ts';
import type { Context } from '../../context/context.ts';
import { toCompletenessRules } from '../../context/open-configured.ts';
import { publishVerdict } from './publish-verdict.ts';

/**
 * Accepts the gaps of a symbol in a window, and publishes that. A run that failed because of one has told of it: it is a
 * warning from now on. Any other is told as a failure once.
 * @throws UsageError for a symbol that is not known, or a window without a gap
 */
export async function acceptGaps(
  context: Context,
  archive: Archive,
  asked: Window & { readonly symbol: string; readonly reason: string },
): Promise<AcceptedWindow> {
  const { symbol, from, to, reason } = asked;
  const { db } = archive.state;
  const facts = readSymbol(db, symbol);
  if (facts === undefined) throw new UsageError(`${symbol} is not known in this archive.`);
  const nowMs = context.clock.nowMs();
  const isPast = from < Math.min(to, nowMs);
  const { gaps } = isPast
    ? listGaps(archive, { from, to, symbols: [facts] }, toCompletenessRules(context.settings), nowMs)
    : { gaps: [] };
  if (gaps.length === 0)
    throw new UsageError(
      `There is no gap of ${symbol} from ${formatIsoUtc(from)} to ${formatIsoUtc(to)}: nothing to accept.`,
    );
  const isTold = gaps.every((gap) => gap.reason !== 'never asked');
  const accepted = { symbol, from, to, reason, acceptedAt: nowMs, reportedAt: isTold ? nowMs : null };
  acceptWindow(db, accepted);
  await publishVerdict(context, archive, 'gaps');
  return accepted;
}

/**
 * Takes back what was accepted of a symbol in a window, and publishes that. Returns what it was.
 * @throws UsageError where nothing was
 */
export async function revokeAcceptedGaps(
  context: Context,
  archive: Archive,
  { symbol, ...window }: Window & { readonly symbol: string },
): Promise<AcceptedWindow[]> {
  const revoked = revokeAccepted(archive.state.db, symbol, window);
  if (revoked.length === 0) throw new UsageError(`No gap of ${symbol} was accepted there: oddslake gaps lists them.`);
  await publishVerdict(context, archive, 'gaps');
  return revoked;
}
