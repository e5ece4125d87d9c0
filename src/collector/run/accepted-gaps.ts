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
 * Accepts the gaps of a symbol in a window, and publishes that. A gap that a run has already reported as a failure is a
 * warning from now on. Any other gap is reported as a failure once.
 * @throws UsageError for an unknown symbol, or a window without a gap
 */
export async function acceptGaps(
  context: Context,
  archive: Archive,
  request: Window & { readonly symbol: string; readonly reason: string },
): Promise<AcceptedWindow> {
  const { symbol, from, to, reason } = request;
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
      `${symbol} has no gap from ${formatIsoUtc(from)} to ${formatIsoUtc(to)}: there is nothing to accept.`,
    );
  const isReported = gaps.every((gap) => gap.reason !== 'never asked');
  const accepted = { symbol, from, to, reason, acceptedAt: nowMs, reportedAt: isReported ? nowMs : null };
  acceptWindow(db, accepted);
  await publishVerdict(context, archive, 'gaps');
  return accepted;
}

/**
 * Revokes the accepted gaps of a symbol in a window, and publishes that. Returns the revoked windows.
 * @throws UsageError if there are none
 */
export async function revokeAcceptedGaps(
  context: Context,
  archive: Archive,
  { symbol, ...window }: Window & { readonly symbol: string },
): Promise<AcceptedWindow[]> {
  const revoked = revokeAccepted(archive.state.db, symbol, window);
  if (revoked.length === 0)
    throw new UsageError(`${symbol} has no accepted gap in this window. To list the accepted gaps: oddslake gaps`);
  await publishVerdict(context, archive, 'gaps');
  return revoked;
}
