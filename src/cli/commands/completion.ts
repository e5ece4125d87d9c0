import { Argument, type Command } from 'commander';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  printResult,
  withArchive,
  withCommonFlags,
} from '../command-context.ts';
import { withExamples, withNotes } from '../help.ts';

interface CompletionFlags extends CommonFlags {
  readonly symbols?: string;
}

/** Symbols that a completion offers; more would not help to choose. */
const symbolsMax = 200;

/** `completion`: prints a script with which a shell completes command lines. */
export function addCompletion(command: Command, cli: CliContext): void {
  command
    .addArgument(new Argument('<shell>', 'shell that runs the script').choices(['bash', 'zsh', 'fish']))
    .option('--symbols <prefix>', 'print the symbols of the archive that begin with this; the script calls it');
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command, flagsUnusedByReaders).action(
    async (shell: 'bash' | 'zsh' | 'fish', flags: CompletionFlags) => {
      if (flags.symbols !== undefined) return await printSymbols(flags.symbols, flags, cli.version);
      const [{ formatCompletionScript }, { listCompletedCommands }] = await Promise.all([
        import('../completion-scripts.ts'),
        import('../completion-tree.ts'),
      ]);
      const script = formatCompletionScript(shell, listCompletedCommands(cli.program));
      printResult(flags, { shell, script }, () => script);
    },
  );
}

const printSymbols = (prefix: string, flags: CommonFlags, version: string): Promise<void> =>
  withArchive(flags, version, async (archive) => {
    const { readSymbolsWithPrefix } = await import('../../archive/journal/symbol-names.ts');
    // A line break would be two candidates, and a control character could act on the terminal.
    const symbols = readSymbolsWithPrefix(archive.state.db, prefix, symbolsMax).filter((name) => !/\p{C}/u.test(name));
    printResult(flags, { symbols }, () => symbols.map((symbol) => `${symbol}\n`).join(''));
  });

const notes = `
The script is made for this version: print it again after an update. For a flag or an argument that is a symbol it calls oddslake,
which reads the symbols of the archive that --output, --config or the environment names, at most ${symbolsMax}.`;

const examples = `
  oddslake completion bash > ~/.local/share/bash-completion/completions/oddslake
  oddslake completion zsh > ~/.zfunc/_oddslake          # a folder of fpath, before compinit
  oddslake completion fish > ~/.config/fish/completions/oddslake.fish`;
