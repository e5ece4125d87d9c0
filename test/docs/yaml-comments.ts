/** The comment above a setting, in one line. */
export interface CommentedKey {
  readonly says: string;
}

/**
 * Reads the comments above the keys of config/default.yaml: of sections, and of settings without the range in brackets at
 * the end and the variable before it, which the schema has too. Keys are dotted paths.
 */
export function parseComments(yaml: string): { sections: Map<string, string>; settings: Map<string, CommentedKey> } {
  const sections = new Map<string, string>();
  const settings = new Map<string, CommentedKey>();
  const above: string[] = [];
  let comment = '';
  for (const line of yaml.split('\n')) {
    const [, indent, key, value] = /^( *)([a-z_0-9]+):(.*)$/.exec(line) ?? [];
    if (key === undefined) {
      comment = line.trim().startsWith('#') ? `${comment} ${line.trim().slice(1).trim()}`.trim() : '';
      continue;
    }
    above.length = indent!.length / 2;
    const path = [...above, key].join('.');
    if (value!.trim() === '') {
      above.push(key);
      sections.set(path, comment);
    } else settings.set(path, { says: stripSchemaParts(comment) });
    comment = '';
  }
  return { sections, settings };
}

const stripSchemaParts = (comment: string): string =>
  comment
    .replace(/ ?\((?:[^()]|\([^()]*\))*\)$/, '')
    .replace(/ ?ODDSLAKE_[A-Z_]+\.$/, '')
    .trim();
