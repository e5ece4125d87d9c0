import { homedir } from 'node:os';
import { Argument, type Command, type Option } from 'commander';
import { datasetNames } from '../../archive/format/datasets.ts';
import { settingSchemas } from '../../settings/layers.ts';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  printResult,
  withArchive,
  withCommonFlags,
} from '../command-context.ts';
import { withHelp } from '../help.ts';

type Shell = 'bash' | 'zsh' | 'fish';

/** Symbols that a completion offers; more would not help to choose. */
const symbolsMax = 200;

/** `completion`: prints a script with which a shell completes command lines. The script calls it again, with the words of a line. */
export function addCompletion(command: Command, cli: CliContext): void {
  command
    .addArgument(new Argument('<shell>', 'shell that runs the script').choices(['bash', 'zsh', 'fish']))
    .argument(
      '[words...]',
      'after --: the words of a command line, whose last one is completed; the script calls it so',
    );
  withHelp(command, notes, examples);
  withCommonFlags(command, ['--config', '--output', '--set', ...flagsUnusedByReaders]).action(
    async (shell: Shell, words: readonly string[], flags: CommonFlags) => {
      if (words.length === 0) return printResult(flags, { shell, script: scripts[shell] }, () => scripts[shell]);
      const { accepted, start, prefix } = completeWords(cli.program, words);
      if (accepted === 'files' || accepted === 'folders')
        return printResult(flags, { kind: accepted }, () => `:${accepted}\n`);
      const found =
        accepted === 'symbols'
          ? await findSymbols(start, words, flags, cli.version)
          : accepted.filter(({ word }) => word.startsWith(start));
      const candidates = found.map(({ word, description }) => ({ word: prefix + word, description }));
      printResult(flags, { kind: 'words', candidates }, () =>
        candidates.map(({ word, description }) => `${word}${description && `\t${description}`}\n`).join(''),
      );
    },
  );
}

/** The symbols that begin with `start`, of the archive that the words select. */
const findSymbols = (
  start: string,
  words: readonly string[],
  flags: CommonFlags,
  version: string,
): Promise<Candidate[]> =>
  withArchive({ ...flags, ...findArchiveFlags(words), quiet: true }, version, async (archive) => {
    const { readSymbolsWithPrefix } = await import('../../archive/journal/symbol-names.ts');
    const symbols = readSymbolsWithPrefix(archive.state.db, start, symbolsMax);
    // A line break would be two candidates, and a control character could act on the terminal.
    return listCandidates(symbols.filter((name) => !/\p{C}/u.test(name)));
  });

/** The flags among the words that select the archive. The shell has not expanded a tilde in them. */
function findArchiveFlags(words: readonly string[]): Partial<CommonFlags> {
  const found = words.slice(0, -1).flatMap((word, i): [string, string][] => {
    const [, name, own] = /^--(output|archive|config|set)(?:=(.*))?$/s.exec(word) ?? [];
    const value = own ?? words[i + 1]!;
    return name === undefined ? [] : [[name, value.replace(/^~(?=\/|$)/, homedir)]];
  });
  const set = found.flatMap(([name, value]) => (name === 'set' ? [value] : []));
  return { ...Object.fromEntries(found), set };
}

// Each script prints nothing by itself. Candidates come with a tab and their description, or as `:files` or `:folders`.

// The words are taken from the line, because bash splits words at colons and equals signs too.
const bashScript = `# Completion for oddslake. Written by oddslake completion.
_oddslake() {
  local line=\${COMP_LINE:0:COMP_POINT} IFS=$' \\t\\n' current found has word
  local -a words
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  current=\${words[\${#words[@]} - 1]}
  found=$("\${words[0]/#\\~/$HOME}" completion bash -- "\${words[@]:1}" 2>/dev/null)
  COMPREPLY=()
  case "$found" in
    :files) compopt -o filenames 2>/dev/null; IFS=$'\\n' COMPREPLY=($(compgen -f -- "\${current#--*=}")); return ;;
    :folders) compopt -o filenames 2>/dev/null; IFS=$'\\n' COMPREPLY=($(compgen -d -- "\${current#--*=}")); return ;;
  esac
  # What bash takes for the current word, e.g. what follows the last colon.
  has=\${COMP_WORDS[COMP_CWORD]}
  [[ $has == [=:] ]] && has=
  local cut=$((\${#current} - \${#has}))
  ((cut < 0)) && cut=0
  while IFS= read -r word; do
    word=\${word%%$'\\t'*} word=\${word:cut}
    [[ -n $word ]] || continue
    # Symbols are names that an upstream chose: quoted, so that the shell evaluates none of them.
    printf -v word %q "$word"
    COMPREPLY+=("$word")
  done <<<"$found"
  [[ \${#COMPREPLY[@]} == 1 && \${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _oddslake oddslake
`;

const zshScript = `#compdef oddslake
# Completion for oddslake. Written by oddslake completion.
_oddslake() {
  local found word
  local -a names
  found=$("\${words[1]/#\\~/$HOME}" completion zsh -- "\${(@Q)words[2,CURRENT]}" 2>/dev/null)
  case "$found" in
    :files) [[ $PREFIX == --*=* ]] && compset -P '*='; _files; return ;;
    :folders) [[ $PREFIX == --*=* ]] && compset -P '*='; _files -/; return ;;
  esac
  for word in "\${(@f)found}"; do
    [[ -n $word ]] || continue
    # A colon separates the description.
    names+=("\${\${word%%$'\\t'*}//:/\\\\:}\${\${(M)word:#*$'\\t'*}:+:\${word#*$'\\t'}}")
  done
  if [[ \${names[1]} == *= ]]; then _describe -t settings setting names -S ''; else _describe -t values value names; fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _oddslake "$@"; else compdef _oddslake oddslake; fi
`;

const fishScript = `# Completion for oddslake. Written by oddslake completion.
function __oddslake_complete
    set -l words (commandline -opc)
    set -l program (string replace -r '^~' $HOME -- $words[1])
    set -e words[1]
    set -l current (commandline -ct)
    set -l found ($program completion fish -- $words "$current" 2>/dev/null)
    set -l prefix (string match -r -- '^--[a-z-]+=' "$current")
    set -l value (string replace -r -- '^--[a-z-]+=' '' "$current")
    switch "$found[1]"
        case :files
            set found (__fish_complete_path "$value" | string replace -r -- '^' "$prefix")
        case :folders
            set found (__fish_complete_directories "$value" '' | string replace -r -- '^' "$prefix")
    end
    printf '%s\\n' $found
end
complete -c oddslake -e
complete -c oddslake -f -a '(__oddslake_complete)'
`;

const scripts: Readonly<Record<Shell, string>> = { bash: bashScript, zsh: zshScript, fish: fishScript };

const notes = `
The script calls oddslake for each completion. Symbols are those of the archive that --output, --config or the environment names,
at most ${symbolsMax}.`;

const examples = `
  oddslake completion bash > ~/.local/share/bash-completion/completions/oddslake   # with the package bash-completion
  oddslake completion zsh > ~/.zfunc/_oddslake          # a folder of fpath, before compinit
  oddslake completion fish > ~/.config/fish/completions/oddslake.fish`;

/** One of several words that can be completed to. */
interface Candidate {
  readonly word: string;
  /** One line; empty if there is nothing to say. */
  readonly description: string;
}

/** What a word can become. The shell completes `files` and `folders`; `symbols` are those of the archive. */
type Accepted = 'files' | 'folders' | 'symbols' | readonly Candidate[];

interface Completion {
  readonly accepted: Accepted;
  /** Start of the word, without what stands before it, such as `--symbol=`. */
  readonly start: string;
  readonly prefix: string;
}

const listCandidates = (words: readonly string[]): Candidate[] => words.map((word) => toCandidate(word, ''));
const toCandidate = (word: string, description: string): Candidate => ({
  word,
  description: description.replace(/\s+/g, ' ').trim(),
});

/**
 * Finds what the last word of a command line can become.
 * @param program with the command of the line loaded
 * @param words those after the program, up to the cursor; the last one may be empty
 */
function completeWords(program: Command, words: readonly string[]): Completion {
  const current = words.at(-1) ?? '';
  const command = findCommand(program, words.slice(0, -1));
  const options = command.createHelp().visibleOptions(command);
  const [, own, start] = /^(--[^=]*)=(.*)$/s.exec(current) ?? [];
  const flag = own ?? words.at(-2) ?? '';
  const option = options.find(({ long, required, optional }) => long === flag && (required || optional));
  if (option !== undefined)
    return { accepted: listFlagValues(option), start: start ?? current, prefix: own === undefined ? '' : `${own}=` };
  const subcommands = listSubcommands(command);
  const accepted = current.startsWith('-')
    ? options.map(({ long, description }) => toCandidate(long!, description))
    : subcommands.length > 0
      ? subcommands
      : listArgumentValues(program, command);
  return { accepted, start: current, prefix: '' };
}

/** The command that the first words name, or the subcommand; the program if they name none. */
function findCommand(program: Command, words: readonly string[]): Command {
  let found = program;
  for (const word of words.slice(0, 2)) {
    const next = found.createHelp().visibleCommands(found);
    found = next.find((command) => command.name() === word) ?? found;
  }
  return found;
}

const listSubcommands = (command: Command): Candidate[] =>
  command
    .createHelp()
    .visibleCommands(command)
    .map((each) => toCandidate(each.name(), each.description()));

function listFlagValues({ long, flags, argChoices }: Option): Accepted {
  if (argChoices !== undefined) return listCandidates(argChoices);
  if (long === '--dataset') return listCandidates(datasetNames);
  if (long === '--set') return listCandidates([...settingSchemas.keys()].map((key) => `${key}=`));
  return guessValues(/[<[]([^>\]]*)[>\]]/.exec(flags)?.[1] ?? '');
}

function listArgumentValues(program: Command, command: Command): Accepted {
  const [first] = command.registeredArguments as readonly (Argument & { argChoices?: string[] })[];
  if (first === undefined) return [];
  if (command.name() === 'help') return listCandidates(listSubcommands(program).map(({ word }) => word));
  return first.argChoices === undefined ? guessValues(first.name()) : listCandidates(first.argChoices);
}

/** @param name placeholder of a value in the help, such as `dir` */
function guessValues(name: string): Accepted {
  if (/symbol/.test(name)) return 'symbols';
  if (/file/.test(name)) return 'files';
  return /dir|folder/.test(name) ? 'folders' : [];
}
