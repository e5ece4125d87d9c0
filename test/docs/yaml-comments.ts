/** The comment above a setting, in one line. */
export interface Commented {
  readonly says: string;
}

/**
 * What the comments above the keys of config/default.yaml say: of sections, and of settings without the range in brackets
 * at their end and the variable before it, both of which are known otherwise. Keys are dotted paths.
 */
export function commentsOf(yaml: string): { sections: Map<string, string>; settings: Map<string, Commented> } {
  const sections = new Map<string, string>();
  const settings = new Map<string, Commented>();
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
    } else settings.set(path, { says: meaningIn(comment) });
    comment = '';
  }
  return { sections, settings };
}

const meaningIn = (comment: string): string =>
  comment
    .replace(/ ?\((?:[^()]|\([^()]*\))*\)$/, '')
    .replace(/ ?ODDSLAKE_[A-Z_]+\.$/, '')
    .trim();
