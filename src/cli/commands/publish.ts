import { type CliContext, type CommonFlags, withCommonFlags } from '../command-context.ts';
import { withExamples, withNotes } from '../help.ts';
import { runJobCommand } from '../run-job.ts';

/** `publish`: merges the journal into the day partitions. */
export function addPublish(shell: CliContext): void {
  const command = shell.program.command('publish').description('merge the journal into the day partitions');
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command).action((flags: CommonFlags) =>
    runJobCommand(shell, 'publish', flags, shell.jobs.publish, () => undefined),
  );
}

const notes = `
Every job publishes at its end. Use this after a run that was interrupted or did not get the write lock within --wait.`;

const examples = `
  oddslake publish --output lake`;
