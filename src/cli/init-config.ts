import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { defaultLayer } from '../settings/source.ts';

/** What stands above a setting in a config that `init` writes. */
const settingComments: Readonly<Record<string, string>> = {
  upstream: 'The market data service.',
  'upstream.base_url': 'Where it is.',
  'upstream.api_key_file': 'File that holds the market data key.',
  'upstream.requests_per_second': 'Requests a second allowed under the key.',
  'source.name': "The service's name in the archive, which belongs to it alone.",
  'archive.output': "The archive's root.",
};

interface ConfigSection {
  [name: string]: unknown;
}

/**
 * A config file with these settings and nothing else.
 * @param chosen by dotted path; the key itself must not be among them
 */
export function formatConfig(chosen: ReadonlyMap<string, unknown>): string {
  const root: ConfigSection = {};
  // In the order of default.yaml, whatever was told first.
  const order = [...defaultLayer.values.keys()];
  for (const [path, value] of [...chosen].sort(([a], [b]) => order.indexOf(a) - order.indexOf(b))) {
    const names = path.split('.');
    const leaf = names.pop()!;
    let branch = root;
    for (const name of names) {
      branch[name] ??= {};
      branch = branch[name] as ConfigSection;
    }
    branch[leaf] = value;
  }
  const head = [
    '# Settings of oddslake, for --config or ODDSLAKE_CONFIG. Relative paths start at the folder of this file.',
    `# Every other setting has its default; all of them, with units: ${findDefaultsFile()}`,
    ...(chosen.has('upstream.api_key_file') ? [] : ['# The market data key comes from ODDSLAKE_API_KEY.']),
  ];
  const sections = Object.entries(root).map(([name, value]) => formatConfigLines(name, value, '').join('\n'));
  return `${[head.join('\n'), ...sections].join('\n\n')}\n`;
}

function formatConfigLines(path: string, value: unknown, indent: string): string[] {
  const name = path.slice(path.lastIndexOf('.') + 1);
  const comment = settingComments[path] === undefined ? [] : [`${indent}# ${settingComments[path]}`];
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return [...comment, `${indent}${name}: ${formatScalar(value)}`];
  const inner = Object.entries(value).flatMap(([key, below]) =>
    formatConfigLines(`${path}.${key}`, below, `${indent}  `),
  );
  return [...comment, `${indent}${name}:`, ...inner];
}

/** A value as YAML in one line: bare where that reads back as the same, as JSON otherwise, which YAML takes too. */
function formatScalar(value: unknown): string {
  if (typeof value !== 'string' || !/^[\w./~][\w./~:-]*$/.test(value)) return JSON.stringify(value);
  return parse(`${value}`) === value && !value.endsWith(':') ? value : JSON.stringify(value);
}

/** Where default.yaml is: beside the program, which is one folder further down in the built package. */
function findDefaultsFile(): string {
  const places = ['../../config/default.yaml', '../../../config/default.yaml'];
  const found = places.map((up) => fileURLToPath(new URL(up, import.meta.url))).find((path) => existsSync(path));
  return found ?? 'config/default.yaml';
}
