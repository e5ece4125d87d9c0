import { join, relative } from 'node:path';
import { toQuarantinePath } from '../archive/layout.ts';
import type { Context } from './context.ts';
import type { Run } from './run.ts';
import { type ActionFacts, quoteShellWord, suggestNextAction } from './suggest-action.ts';
import type { Summary } from './summary.ts';

/** The summary with what is to be done next. `run`: none where the archive could not be opened, or read any more. */
export const addNextAction = (summary: Summary, context: Context, run: Run | undefined, thrown: unknown): Summary => ({
  ...summary,
  next_action: suggestNextAction(summary, gatherActionFacts(context, run, thrown)),
});

function gatherActionFacts({ settings, argv }: Context, run: Run | undefined, thrown: unknown): ActionFacts {
  const { output, outputFlagged } = settings.archive;
  const config = settings.configFile === null ? '' : ` --config ${quoteShellWord(toRelativePath(settings.configFile))}`;
  return {
    thrown,
    failures: run?.failures ?? [],
    hasSharpDrop: run?.hasSharpDrop ?? false,
    longOverdueSymbols: run?.longOverdueSymbols ?? [],
    quarantinePath: join(toRelativePath(output), toQuarantinePath(run?.archive.state.generation() ?? 0)),
    flags: `${outputFlagged ? `${config} --output ${quoteShellWord(toRelativePath(output))}` : config}${formatSetFlags(argv ?? [])}`,
    argv: argv ?? null,
  };
}

/** The settings that were given by --set, as a shell takes them. */
function formatSetFlags(words: readonly string[]): string {
  const given = words.flatMap((word, i) =>
    word === '--set' ? (words[i + 1] ?? []) : word.startsWith('--set=') ? word.slice('--set='.length) : [],
  );
  return given.map((text) => ` --set ${quoteShellWord(text)}`).join('');
}

/** From the working folder, where it lies in it. */
function toRelativePath(path: string): string {
  const from = relative('.', path);
  return from === '' || from.startsWith('..') ? path : from;
}
