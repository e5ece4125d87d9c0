import { join, relative } from 'node:path';
import { quarantinePath } from '../archive/layout.ts';
import type { Context } from './context.ts';
import type { Run } from './run.ts';
import { type NextFacts, nextAction, shellWord } from './suggest-action.ts';
import type { Summary } from './summary.ts';

/** The summary with what is to be done next. `run`: none where the archive could not be opened, or read any more. */
export const withNextAction = (summary: Summary, context: Context, run: Run | undefined, thrown: unknown): Summary => ({
  ...summary,
  next_action: nextAction(summary, nextFacts(context, run, thrown)),
});

function nextFacts({ settings, words }: Context, run: Run | undefined, thrown: unknown): NextFacts {
  const { output, outputFlagged } = settings.archive;
  const config = settings.configFile === null ? '' : ` --config ${shellWord(near(settings.configFile))}`;
  return {
    thrown,
    failures: run?.failures ?? [],
    fell: run?.fell ?? false,
    longOverdue: run?.longOverdue ?? [],
    quarantine: join(near(output), quarantinePath(run?.archive.state.generation() ?? 0)),
    flags: `${outputFlagged ? `${config} --output ${shellWord(near(output))}` : config}${setFlags(words ?? [])}`,
    words: words ?? null,
  };
}

/** The settings that were given by --set, as a shell takes them. */
function setFlags(words: readonly string[]): string {
  const given = words.flatMap((word, i) =>
    word === '--set' ? (words[i + 1] ?? []) : word.startsWith('--set=') ? word.slice('--set='.length) : [],
  );
  return given.map((text) => ` --set ${shellWord(text)}`).join('');
}

/** From the working folder, where it lies in it. */
function near(path: string): string {
  const from = relative('.', path);
  return from === '' || from.startsWith('..') ? path : from;
}
