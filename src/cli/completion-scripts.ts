import type { CompletedCommand, CompletedFlag, CompletedName, CompletedValue } from './completion-tree.ts';

export const completionShells = ['bash', 'zsh', 'fish'] as const;
type CompletionShell = (typeof completionShells)[number];

/** Formats the script that completes command lines of the program in a shell. */
export function formatCompletionScript(shell: CompletionShell, commands: readonly CompletedCommand[]): string {
  if (shell === 'fish') return formatFish(commands);
  return `${formatCandidates(commands)}\n${shell === 'bash' ? bashFunction : zshFunction}`;
}

const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** A candidate on one line: the word, a tab, its description. */
const formatNames = (names: readonly CompletedName[]): string =>
  names.map(({ name, description }) => quote(`${name}\t${description}`)).join(' ');

const formatValue = (value: CompletedValue): string =>
  value === 'any'
    ? 'return 0'
    : `printf '%s\\n' ${typeof value === 'string' ? `:${value}` : value.map((word) => quote(word)).join(' ')}`;

/**
 * The functions that bash and zsh share. `_oddslake_find_command WORD WORD` sets `oddslake_command`.
 * `_oddslake_candidates KEY` prints candidates or `:files`, `:folders`, `:symbols`. The key is the command and a bar, followed by
 * nothing for words, `-` for flags, or a flag for its values; status 1 if that flag takes no value.
 */
function formatCandidates(commands: readonly CompletedCommand[]): string {
  const paths = commands.map(({ path }) => path).filter((path) => path !== '');
  const common = new Map(
    commands.flatMap(({ flags }) => flags.filter(({ isCommon }) => isCommon).map((flag) => [flag.name, flag])),
  );
  const lines = [
    '# Completion for oddslake. Written by oddslake completion.',
    '_oddslake_find_command() {',
    '  oddslake_command=',
    '  case "$1 $2" in',
    `    ${paths
      .filter((path) => path.includes(' '))
      .map(quote)
      .join('|')}) oddslake_command="$1 $2"; return ;;`,
    '  esac',
    '  case "$1" in',
    `    ${paths
      .filter((path) => !path.includes(' '))
      .map(quote)
      .join('|')}) oddslake_command=$1 ;;`,
    '  esac',
    '}',
    '_oddslake_common_flags() {',
    '  local flag',
    '  for flag in "$@"; do',
    '    case "$flag" in',
    ...[...common.values()].map((flag) => `      ${quote(flag.name)}) printf '%s\\n' ${formatNames([flag])} ;;`),
    '    esac',
    '  done',
    '}',
    '_oddslake_candidates() {',
    '  case "$1" in',
    ...commands.flatMap(formatWords),
    ...formatFlagValues(commands),
    '    *) return 1 ;;',
    '  esac',
    '}',
  ];
  return `${lines.join('\n')}\n`;
}

function formatWords({ path, subcommands, flags, argument }: CompletedCommand): string[] {
  const own = flags.filter(({ isCommon }) => !isCommon);
  const common = flags.filter(({ isCommon }) => isCommon).map(({ name }) => name);
  const words = subcommands.length === 0 ? formatValue(argument) : `printf '%s\\n' ${formatNames(subcommands)}`;
  return [
    `    ${quote(`${path}|`)}) ${words} ;;`,
    `    ${quote(`${path}|-`)})`,
    ...(own.length === 0 ? [] : [`      printf '%s\\n' ${formatNames(own)}`]),
    ...(common.length === 0 ? [] : [`      _oddslake_common_flags ${common.join(' ')}`]),
    '      ;;',
  ];
}

/** One line for each flag and kind of value; without the commands if all commands agree. */
function formatFlagValues(commands: readonly CompletedCommand[]): string[] {
  const uses = commands.flatMap(({ path, flags }) => flags.map((flag) => ({ path, flag })));
  return [...Map.groupBy(uses, ({ flag }) => flag.name)].flatMap(([name, ofName]) => {
    const kinds = [...Map.groupBy(ofName, ({ flag }) => JSON.stringify(flag.value)).values()];
    return kinds.flatMap((ofKind) => {
      const { value } = ofKind[0]!.flag;
      if (value === null) return [];
      const keys = kinds.length === 1 ? [`*${quote(`|${name}`)}`] : ofKind.map(({ path }) => quote(`${path}|${name}`));
      return [`    ${keys.join('|')}) ${formatValue(value)} ;;`];
    });
  });
}

// The current word is taken from the line, because bash splits words at colons and equals signs too.
const bashFunction = `_oddslake_symbols() {
  local prefix=$1 program=$2 word
  local -a archive=()
  shift 2
  while [ $# -gt 1 ]; do
    case "$1" in
      --output|--archive|--config|--set) word=$2; archive+=("$1" "\${word/#\\~/$HOME}"); shift ;;
      --output=*|--archive=*|--config=*|--set=*) archive+=("$1") ;;
    esac
    shift
  done
  "$program" completion bash --symbols "$prefix" "\${archive[@]}" 2>/dev/null
}
_oddslake() {
  local line=\${COMP_LINE:0:COMP_POINT} IFS=$' \\t\\n' oddslake_command current previous found word has value key
  local -a words
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  local last=$((\${#words[@]} - 1))
  current=\${words[last]} previous=\${words[last-1]} value=$current
  if ((last > 1)); then _oddslake_find_command "\${words[1]}" "$( ((last > 2)) && echo "\${words[2]}")"; fi
  if [[ $current == --*=* ]]; then
    key=\${current%%=*} value=\${current#*=}
    found=$(_oddslake_candidates "$oddslake_command|$key") || return 0
  elif [[ $previous == --* ]] && found=$(_oddslake_candidates "$oddslake_command|$previous"); then :
  elif [[ $current == -* ]]; then found=$(_oddslake_candidates "$oddslake_command|-")
  else found=$(_oddslake_candidates "$oddslake_command|")
  fi
  COMPREPLY=()
  # What bash takes for the current word, e.g. what follows the last colon.
  has=\${COMP_WORDS[COMP_CWORD]}
  [[ $has == [=:] ]] && has=
  case "$found" in
    :files) compopt -o filenames 2>/dev/null; IFS=$'\\n' COMPREPLY=($(compgen -f -- "$value")); return ;;
    :folders) compopt -o filenames 2>/dev/null; IFS=$'\\n' COMPREPLY=($(compgen -d -- "$value")); return ;;
    :symbols) found=$(_oddslake_symbols "$value" "\${words[@]}") ;;
  esac
  local cut=$((\${#value} - \${#has}))
  ((cut < 0)) && cut=0
  while IFS= read -r word; do
    word=\${word%%$'\\t'*}
    [[ -n $word && $word == "$value"* ]] && COMPREPLY+=("\${word:cut}")
  done <<<"$found"
  [[ \${#COMPREPLY[@]} == 1 && \${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _oddslake oddslake
`;

const zshFunction = `_oddslake() {
  local oddslake_command current=\${words[CURRENT]} previous=\${words[CURRENT-1]} found word
  local -a names archive rest
  (( CURRENT > 2 )) && _oddslake_find_command "\${words[2]}" "$( (( CURRENT > 3 )) && print -r -- "\${words[3]}")"
  if [[ $current == --*=* ]]; then
    found=$(_oddslake_candidates "$oddslake_command|\${current%%=*}") || return 1
    compset -P '*='
    current=\${current#*=}
  elif [[ $previous == --* ]] && found=$(_oddslake_candidates "$oddslake_command|$previous"); then :
  elif [[ $current == -* ]]; then found=$(_oddslake_candidates "$oddslake_command|-")
  else found=$(_oddslake_candidates "$oddslake_command|")
  fi
  case "$found" in
    :files) _files; return ;;
    :folders) _files -/; return ;;
    :symbols)
      rest=("\${(@)words[2,CURRENT-1]}")
      while (( $#rest )); do
        case "\${rest[1]}" in
          --output|--archive|--config|--set) archive+=("\${rest[1]}" "\${\${rest[2]}/#\\~/$HOME}") ;;
          --output=*|--archive=*|--config=*|--set=*) archive+=("\${rest[1]}") ;;
        esac
        shift rest
      done
      found=$("\${words[1]}" completion zsh --symbols "$current" "\${(@)archive}" 2>/dev/null) ;;
  esac
  for word in "\${(@f)found}"; do
    [[ -n $word ]] || continue
    # A colon separates the description.
    names+=("\${\${word%%$'\\t'*}//:/\\\\:}\${\${(M)word:#*$'\\t'*}:+:\${word#*$'\\t'}}")
  done
  if [[ $previous == --set ]]; then _describe -t settings setting names -S ''; else _describe -t values value names; fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _oddslake "$@"; else compdef _oddslake oddslake; fi
`;

function formatFish(commands: readonly CompletedCommand[]): string {
  return `# Completion for oddslake. Written by oddslake completion.
function __oddslake_command
    set -l words (commandline -opc)
    switch "$words[2] $words[3]"
        case ${commands.flatMap(({ path }) => (path.includes(' ') ? [quote(path)] : [])).join(' ')}
            echo "$words[2] $words[3]"
            return
    end
    switch "$words[2]"
        case ${commands.flatMap(({ path }) => (/^\S+$/.test(path) ? [quote(path)] : [])).join(' ')}
            echo "$words[2]"
    end
end
function __oddslake_at
    set -l here (__oddslake_command)
    test "$here" = "$argv[1]"
end
function __oddslake_symbols
    set -l words (commandline -opc)
    set -l archive
    for i in (seq 2 (count $words))
        switch "$words[$i]"
            case --output --archive --config --set
                set -l next (math $i + 1)
                set -a archive $words[$i] (string replace -r '^~' $HOME -- "$words[$next]")
            case '--output=*' '--archive=*' '--config=*' '--set=*'
                set -a archive $words[$i]
        end
    end
    set -l prefix (string replace -r '^--[a-z-]+=' '' -- (commandline -ct))
    $words[1] completion fish --symbols "$prefix" $archive 2>/dev/null
end
function __oddslake_words
    switch $argv[1]
${[...listLongValues(commands)].map(([words, name]) => `        case ${name}\n            printf '%s\\n' ${words.split(' ').map(quote).join(' ')}`).join('\n')}
    end
end
complete -c oddslake -e
complete -c oddslake -f
${commands.flatMap((command) => formatFishCommand(command, listLongValues(commands))).join('\n')}
`;
}

/** Long lists of values, each with a name under which the script has it once. */
function listLongValues(commands: readonly CompletedCommand[]): Map<string, string> {
  const flags = commands.flatMap((command) => command.flags);
  const long = flags.filter(({ value }) => Array.isArray(value) && value.length > 10);
  return new Map(long.map(({ name, value }) => [(value as string[]).join(' '), name.slice(2)]));
}

function formatFishCommand(
  { path, subcommands, flags, argument }: CompletedCommand,
  long: ReadonlyMap<string, string>,
): string[] {
  const at = `complete -c oddslake -n ${quote(`__oddslake_at ${quote(path)}`)}`;
  const words =
    subcommands.length > 0
      ? subcommands.map(({ name, description }) => `${at} -a ${name} -d ${quote(description)}`)
      : argument === 'any'
        ? []
        : [`${at}${formatFishValue(argument, long)}`];
  return [...words, ...flags.map((flag) => formatFishFlag(at, flag, long))];
}

const formatFishFlag = (
  at: string,
  { name, description, value }: CompletedFlag,
  long: ReadonlyMap<string, string>,
): string =>
  `${at} -l ${name.slice(2)}${value === null ? '' : ` -r${formatFishValue(value, long)}`} -d ${quote(description)}`;

function formatFishValue(value: CompletedValue, long: ReadonlyMap<string, string>): string {
  if (value === 'any') return ' -f';
  if (value === 'files') return ' -F';
  if (value === 'folders') return ` -f -a ${quote('(__fish_complete_directories (commandline -ct))')}`;
  if (value === 'symbols') return ` -f -a ${quote('(__oddslake_symbols)')}`;
  const words = value.join(' ');
  const name = long.get(words);
  return ` -f -a ${quote(name === undefined ? words : `(__oddslake_words ${name})`)}`;
}
