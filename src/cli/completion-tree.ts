import type { Argument, Command, Option } from 'commander';
import { datasetNames } from '../archive/format/datasets.ts';
import { settingSchemas } from '../settings/source.ts';

/** What a flag or an argument accepts. `symbols` are those of the archive that the command line names. */
export type CompletedValue = 'any' | 'files' | 'folders' | 'symbols' | readonly string[];

export interface CompletedName {
  readonly name: string;
  /** One line. */
  readonly description: string;
}

export interface CompletedFlag extends CompletedName {
  /** Null if the flag takes no value. */
  readonly value: CompletedValue | null;
  /** Whether many commands have it. */
  readonly isCommon: boolean;
}

/** What follows a command, for scripts that complete command lines. */
export interface CompletedCommand {
  /** The words of the command without the program, e.g. `keys create`; empty for the program. */
  readonly path: string;
  readonly subcommands: readonly CompletedName[];
  readonly flags: readonly CompletedFlag[];
  readonly argument: CompletedValue;
}

/** Lists the program and all of its commands, with the visible flags of each. */
export function listCompletedCommands(program: Command): CompletedCommand[] {
  const visit = (command: Command, path: string): CompletedCommand[] => {
    const help = command.createHelp();
    const subcommands = help.visibleCommands(command);
    const own = subcommands.map((each) => ({ name: each.name(), description: toOneLine(each.description()) }));
    const flags = help.visibleOptions(command).map(toFlag);
    const argument: CompletedValue =
      path === 'help' ? help.visibleCommands(program).map((each) => each.name()) : toArgumentValue(command);
    return [
      { path, subcommands: own, flags, argument },
      ...subcommands.flatMap((each) => visit(each, `${path} ${each.name()}`.trim())),
    ];
  };
  return visit(program, '');
}

const toOneLine = (text: string): string => text.replace(/\s+/g, ' ').trim();

function toFlag(option: Option): CompletedFlag {
  const takesValue = option.required || option.optional;
  return {
    name: option.long!,
    description: toOneLine(option.description),
    value: takesValue ? toFlagValue(option) : null,
    isCommon: option.helpGroupHeading === 'Common options:',
  };
}

function toFlagValue({ long, flags, argChoices }: Option): CompletedValue {
  if (argChoices !== undefined) return argChoices;
  if (long === '--dataset') return datasetNames;
  if (long === '--set') return [...settingSchemas.keys()].map((key) => `${key}=`);
  return toValueOfName(/[<[]([^>\]]*)[>\]]/.exec(flags)?.[1] ?? '');
}

function toArgumentValue({ registeredArguments: [first] }: Command): CompletedValue {
  if (first === undefined) return 'any';
  return (first as Argument & { argChoices?: string[] }).argChoices ?? toValueOfName(first.name());
}

/** @param name placeholder of a value in the help, such as `dir` */
function toValueOfName(name: string): CompletedValue {
  if (/symbol/.test(name)) return 'symbols';
  if (/file/.test(name)) return 'files';
  return /dir|folder/.test(name) ? 'folders' : 'any';
}
