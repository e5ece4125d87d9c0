import type { Command } from 'commander';
import { UsageError } from '../../core/errors.ts';
import { isoUtc } from '../../core/time.ts';
import type { AcceptedWindow } from '../../state/accepted.ts';
import { type CommonFlags, idleWhereRead, withArchive, withCommonFlags } from '../command-context.ts';
import type { Shell } from '../command-types.ts';
import { visible } from '../escape-control.ts';
import { withExamples, withNotes } from '../help.ts';
import { askedEnds, askedWindow, fromOption, knownSymbols, symbolOption, toOption } from '../options.ts';

interface Ends {
  readonly from?: string;
  readonly to?: string;
}

interface AcceptFlags extends CommonFlags, Ends {
  readonly reason: string;
}

interface GapsFlags extends CommonFlags, Ends {
  readonly symbol: readonly string[];
}

/** `gaps`: what no successful request has covered, and why; `gaps accept`, `gaps revoke`: which of them stay. */
export function addGaps(shell: Shell): void {
  const command = shell.program
    .command('gaps')
    .description(
      "windows inside the asked range and the symbol's lifetime that no request has covered, each with its reason",
    )
    .addOption(fromOption(' (default: the first moment covered or with a tick)'))
    .addOption(toOption(' (default: the last one)'))
    .addOption(symbolOption());
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command, idleWhereRead).action((flags: GapsFlags) =>
    withArchive(flags, shell.version, async (archive, context) => {
      const [{ listGaps }, { gapsText }, { judgedBy }] = await Promise.all([
        import('../../reading/gaps.ts'),
        import('../format-gaps.ts'),
        import('../../settings/judged-by.ts'),
      ]);
      const asked = { ...askedEnds(flags), symbols: knownSymbols(archive, flags.symbol) };
      const gaps = listGaps(archive, asked, judgedBy(context.settings), context.clock.nowMs());
      process.stdout.write(flags.json === true ? `${JSON.stringify(gaps)}\n` : gapsText(gaps));
    }),
  );
  addAccept(shell, command);
  addRevoke(shell, command);
}

// A subcommand's flags that its parent has too are the parent's to Commander.

function addAccept(shell: Shell, gaps: Command): void {
  const accept = gaps
    .command('accept')
    .description(
      'say that the gaps of a symbol in a window stay: shown, never covered, and no failure of a run any more',
    )
    .argument('<symbol>', 'whose gaps')
    .addOption(fromOption(' (required)'))
    .addOption(toOption(' (required)'))
    .requiredOption('--reason <text>', 'required: why, for whoever looks at them later');
  withNotes(accept, acceptNotes);
  withExamples(accept, acceptExamples);
  withCommonFlags(accept, ['--no-progress', '--strict']).action((symbol: string, _own: object, command: Command) => {
    const flags = command.optsWithGlobals<AcceptFlags>();
    const { from, to, reason } = flags;
    if (from === undefined || to === undefined) throw new UsageError('gaps accept needs both --from and --to.');
    if (reason.trim() === '') throw new UsageError('--reason is empty: say why the gap stays.');
    return withArchive(flags, shell.version, async (archive, context) => {
      const { acceptGaps } = await import('../../app/accepted-gaps.ts');
      const accepted = await acceptGaps(context, archive, { symbol, ...askedWindow({ from, to }), reason });
      process.stdout.write(
        flags.json === true ? `${JSON.stringify({ accepted: shown(accepted) })}\n` : `accepted: ${line(accepted)}\n`,
      );
    });
  });
}

function addRevoke(shell: Shell, gaps: Command): void {
  const revoke = gaps
    .command('revoke')
    .description('take back what was accepted: its gaps are failures of the runs again until they are covered')
    .argument('<symbol>', 'whose gaps')
    .addOption(fromOption(' (default: the beginning)'))
    .addOption(toOption(' (default: for good)'));
  withExamples(revoke, revokeExamples);
  withCommonFlags(revoke, ['--no-progress', '--strict']).action((symbol: string, _own: object, command: Command) => {
    const flags = command.optsWithGlobals<CommonFlags & Ends>();
    return withArchive(flags, shell.version, async (archive, context) => {
      const { revokeGaps } = await import('../../app/accepted-gaps.ts');
      const { from, to } = askedEnds(flags);
      const window = { from: from ?? Number.MIN_SAFE_INTEGER, to: to ?? Number.MAX_SAFE_INTEGER };
      const revoked = await revokeGaps(context, archive, { symbol, ...window });
      process.stdout.write(
        flags.json === true
          ? `${JSON.stringify({ revoked: revoked.map(shown) })}\n`
          : revoked.map((accepted) => `revoked: ${line(accepted)}\n`).join(''),
      );
    });
  });
}

const shown = ({ symbol, from, to, reason, acceptedAt }: AcceptedWindow) => ({
  ...{ symbol, from, to, reason, accepted_at: acceptedAt },
});

const line = ({ symbol, from, to, reason }: AcceptedWindow): string =>
  `${visible(symbol)} ${isoUtc(from)} … ${isoUtc(to)}: ${visible(reason)}`;

const acceptNotes = `
An accepted gap holds up neither watermark nor lag. Where no run has failed because of it yet the next one does, once; it is
a warning after that. It is asked for no more but by a backfill, and is no gap any more where that brings it.`;

const acceptExamples = `
  oddslake gaps accept KXBTC-26DEC0204-T28 --from 2026-11-19T03:00:00Z --to 2026-11-19T05:00:00Z --reason 'venue was down'`;

const revokeExamples = `
  oddslake gaps revoke KXBTC-26DEC0204-T28
  oddslake gaps revoke KXBTC-26DEC0204-T28 --from 2026-11-19 --to 2026-11-20`;

const notes = `
A window that coverage names and that holds no tick is quiet, and no gap. Reasons: never asked; failed, with what came of the
last request; suspended, as the service says that it does not know the symbol; lost, which had ticks once; expired, where the
service goes back no further by now; accepted.`;

const examples = `
  oddslake gaps --output lake
  oddslake gaps --output lake --from 2026-11-01 --to 2026-11-08 --json | jq .windows`;
