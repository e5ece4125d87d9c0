import { DamageError } from '../../base/errors.ts';
import { formatCount } from '../../base/format-quantity.ts';
import { formatIsoUtc } from '../../base/time.ts';
import type { RecheckCost } from '../../collector/run/inferred-cost.ts';
import { type CliContext, type CommonFlags, withArchive, withCommonFlags } from '../command-context.ts';
import { withNotes } from '../help.ts';

/** `upgrade`: an archive that an older oddslake left. */
export function addUpgrade(shell: CliContext): void {
  const command = shell.program
    .command('upgrade')
    .description("bring an older archive up to this oddslake's format: one new generation, no tick touched");
  withNotes(command, notes);
  withCommonFlags(command, ['--strict']).action((flags: CommonFlags) =>
    withArchive(flags, shell.version, async (archive, context) => {
      const [{ toCompletenessRules }, { estimateRecheckCost }, { publish }] = await Promise.all([
        import('../../context/open-configured.ts'),
        import('../../collector/run/inferred-cost.ts'),
        import('../../archive/publish/publish.ts'),
      ]);
      const display = await context.startDisplay('upgrade', 1, 'parts');
      try {
        const { previousManifest, manifest, files, refused } = await publish(archive, {
          runId: 'upgrade',
          clock: context.clock,
          waitMs: context.waitMs,
          signal: context.signal,
          ...toCompletenessRules(context.settings),
          upgrades: true,
          candles: context.settings.archive.candles,
          onProgress: (done, total) => display.update({ done, total }),
        });
        display.stop();
        if (refused.length > 0) throw new DamageError(`${refused.join(' ')} Run oddslake verify.`);
        // Of two at a time the second finds nothing left to do.
        const { format_version: from } = previousManifest;
        const { format_version: to, generation } = manifest;
        const said = {
          archive: archive.layout.root,
          from_format: from,
          to_format: to,
          generation,
          files: files.length,
          inferred: from === to ? null : estimateRecheckCost(archive.state.db, context.settings.poll.pageLimit),
        };
        const text =
          from === to
            ? `${said.archive} has format ${to} already: nothing to do\n`
            : `${said.archive}: from format ${from} to ${to}, generation ${generation}, ${formatCount(files.length, 'file')} written\n${formatInferredCost(said.inferred)}`;
        process.stdout.write(flags.json === true ? `${JSON.stringify(said)}\n` : text);
      } finally {
        display.stop();
      }
    }),
  );
}

/** What rests on no evidence, and how to have it confirmed. */
function formatInferredCost(inferred: RecheckCost | null): string {
  if (inferred === null || inferred.windows === 0) return '';
  const { windows, symbols, from, to, expected_requests: requests } = inferred;
  return `Nothing tells why ${formatCount(windows, 'window')} of ${formatCount(symbols, 'symbol')} count as covered: they are inferred, and their days provisional. To have them confirmed, with about ${formatCount(requests, 'request')}:
  oddslake backfill --from ${formatIsoUtc(from)} --to ${formatIsoUtc(to)} --recheck inferred
`;
}

const notes = `
Commands that only read accept an older archive. Commands that publish refuse it, because an older oddslake may still be using
it: stop that one first; it refuses the upgraded archive. Journaled ticks stay in the journal.`;
