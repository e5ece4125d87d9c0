import type { Command } from 'commander';
import { DamageError } from '../../base/errors.ts';
import { formatCount } from '../../base/format-quantity.ts';
import { formatIsoUtc } from '../../base/time.ts';
import type { RecheckCost } from '../../collector/paging/plan.ts';
import { type CliContext, type CommonFlags, printResult, withArchive, withCommonFlags } from '../command-context.ts';
import { completeCommands } from '../command-name.ts';
import { withNotes } from '../help.ts';

/** `upgrade`: converts an archive of an older oddslake to the current format. */
export function addUpgrade(command: Command, shell: CliContext): void {
  withNotes(command, notes);
  withCommonFlags(command, ['--strict']).action((flags: CommonFlags) =>
    withArchive(flags, shell.version, async (archive, context) => {
      const [{ toCompletenessRules }, { estimateRecheckCost }, { publish }] = await Promise.all([
        import('../../context/open-configured.ts'),
        import('../../collector/paging/plan.ts'),
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
        if (refused.length > 0)
          throw new DamageError(`${refused.join(' ')} Run oddslake verify --repair, then repeat oddslake upgrade.`);
        // Of two concurrent upgrades, the second has nothing to do.
        const { format_version: from } = previousManifest;
        const { format_version: to, generation } = manifest;
        const json = {
          archive: archive.layout.root,
          from_format: from,
          to_format: to,
          generation,
          files: files.length,
          inferred: from === to ? null : estimateRecheckCost(archive.state.db, context.settings.poll.pageLimit),
        };
        const text =
          from === to
            ? `${json.archive} already has format ${to}: ${files.length === 0 ? 'nothing to do' : `${formatCount(files.length, 'file')} of an older format rewritten, generation ${generation}`}\n`
            : `${json.archive}: upgraded from format ${from} to ${to}, generation ${generation}, ${formatCount(files.length, 'file')} written\n${formatInferredCost(json.inferred)}`;
        printResult(flags, json, () => text);
      } finally {
        display.stop();
      }
    }),
  );
}

/** Windows whose coverage is only inferred, and the command that confirms them. */
function formatInferredCost(inferred: RecheckCost | null): string {
  if (inferred === null || inferred.windows === 0) return '';
  const { windows, symbols, from, to, expected_requests: requests } = inferred;
  return `The coverage of ${formatCount(windows, 'window')} of ${formatCount(symbols, 'symbol')} has no stored evidence: it is inferred, and its days are provisional. To confirm it, with about ${formatCount(requests, 'request')}:
  ${completeCommands(`oddslake backfill --from ${formatIsoUtc(from)} --to ${formatIsoUtc(to)} --recheck inferred`)}
`;
}

const notes = `
Commands that only read accept an older archive. Commands that publish reject it, because an older oddslake may still be using
it. Stop the older oddslake first, because it cannot use the upgraded archive. Journaled ticks stay in the journal.`;
