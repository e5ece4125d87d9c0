import type { Command } from 'commander';
import { createProgram } from '../../src/cli/main.ts';
import type { JobLoaders } from '../../src/collector/job.ts';
import { settingSchemas } from '../../src/settings/layers.ts';
import { parseSetOption } from '../../src/settings/load.ts';
import { variables } from '../contract/promises.ts';

/** The errors of a command line in an example; empty if the program accepts it. */
export function findErrors(args: readonly string[]): string[] {
  const [name, ...rest] = args;
  const found = program.commands.find((command) => command.name() === name);
  if (found === undefined) return [`no command ${name}`];
  const subcommand = found.commands.find((command) => command.name() === rest[0]);
  return findCommandErrors(subcommand ?? found, subcommand === undefined ? rest : rest.slice(1));
}

function findCommandErrors(command: Command, args: readonly string[]): string[] {
  const errors: string[] = [];
  const operands: string[] = [];
  for (let at = 0; at < args.length; at++) {
    const text = args[at]!;
    if (!text.startsWith('--')) {
      operands.push(text);
      continue;
    }
    const option = command.options.find((one) => one.long === text);
    if (option === undefined) errors.push(`${command.name()} has no ${text}`);
    else if (option.required) errors.push(...describeInvalidValue(text, args[++at]));
  }
  const argumentsMax = command.registeredArguments.some(({ variadic }) => variadic)
    ? Number.POSITIVE_INFINITY
    : command.registeredArguments.length;
  const argumentsMin = command.registeredArguments.filter(({ required }) => required).length;
  if (operands.length < argumentsMin || operands.length > argumentsMax)
    errors.push(`${command.name()} takes no ${operands.join(' ')}`);
  return errors;
}

function describeInvalidValue(flag: string, value: string | undefined): string[] {
  if (value === undefined || value.startsWith('--')) return [`${flag} needs a value`];
  try {
    if (flag === '--set') parseSetOption(value);
    return [];
  } catch (error) {
    return [(error as Error).message];
  }
}

const program = await createProgram('0.0.0', {} as JobLoaders, () => {});

/** Every call of the program in a shell text, up to the end of the command; also commented lines of a crontab. */
export const findCalls = (text: string): string[][] =>
  text
    .split('\n')
    .filter((line) => !/^\s*#(?! \*)/.test(line))
    .map((line) => line.replace(/\s#(?! \*).*$/, ''))
    .flatMap((line) => [...line.matchAll(/(?:^|[\s(/])oddslake (?!oddslake\b)([a-z]+(?:\s[^)|;&>]*)?)(?=$|[)|;&>])/g)])
    .map(([, call]) => splitWords(call!));

/** Splits words like a shell, without quotes, up to the number of a redirection. */
const splitWords = (call: string): string[] =>
  [...call.replace(/\s2\s*$/, '').matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c!);

/** Settings, variables and metrics that a text names and that do not exist. */
export function findUnknownNames(text: string, metrics: ReadonlySet<string>): string[] {
  const sections = new Set([...settingSchemas.keys()].map((path) => path.split('.')[0]!));
  const settings = [...text.matchAll(/(?<![\w./-])([a-z]+)\.([a-z_]+(?:\.[a-z_]+)*)(?![\w/*-]|\.[a-z])/g)]
    .filter(([, section, rest]) => sections.has(section!) && !/^(ya?ml|sqlite|md|json|prom)$/.test(rest!))
    .map(([path]) => path)
    .filter((path) => !settingSchemas.has(path));
  const variableNames = [...text.matchAll(/\bODDSLAKE_[A-Z_]+[A-Z]\b/g)].map(([name]) => name);
  const metricNames = [...text.matchAll(/\boddslake_[a-z]+_[a-z_]+[a-z]\b/g)].map(([name]) => name);
  return [
    ...settings,
    ...variableNames.filter((name) => !Object.hasOwn(variables, name)),
    ...metricNames.filter((name) => !metrics.has(name) && name !== 'oddslake_nightly'),
  ];
}
