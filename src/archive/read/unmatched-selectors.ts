import { existsSync } from 'node:fs';
import { matchesSelector, type SelectionRules, suggestExistingSelector } from '../../base/symbol-selector.ts';
import { createLayout } from '../format/layout.ts';
import type { Database } from '../journal/database.ts';
import { inspectDatabase, refuseOtherSchema, toStateFilePath } from '../journal/state.ts';
import { readAllSymbols } from '../journal/symbol-store.ts';

/**
 * Says of each selector that matches no known symbol of a source so, with the value that it probably means. Empty if no
 * market list named a symbol yet. It may match one tomorrow, so this is no error.
 */
export function describeUnmatchedSelectors(db: Database, source: string | null, rules: SelectionRules): string[] {
  const { include, exclude } = rules;
  if (include.length + exclude.length === 0) return [];
  const symbols = readAllSymbols(db, source).filter(({ listed }) => listed);
  if (symbols.length === 0) return [];
  const describe = (setting: string, selectors: readonly string[]) =>
    selectors
      .filter((selector) => !symbols.some((facts) => matchesSelector(selector, facts)))
      .map((selector) => {
        const suggestion = suggestExistingSelector(selector, symbols);
        const question = suggestion === null ? '' : ` (Did you mean ${suggestion}?)`;
        return `${setting}: ${selector} matches no known symbol.${question}`;
      });
  return [...describe('source.include', include), ...describe('source.exclude', exclude)];
}

/** The same for the archive in a folder, without opening or changing it. Empty if its state cannot be read as it is. */
export function inspectUnmatchedSelectors(root: string, source: string | null, rules: SelectionRules): string[] {
  const { privateFolder } = createLayout(root);
  const path = toStateFilePath(privateFolder);
  if (rules.include.length + rules.exclude.length === 0 || !existsSync(path)) return [];
  try {
    refuseOtherSchema(privateFolder);
    return inspectDatabase(path, (db) => describeUnmatchedSelectors(db, source, rules));
  } catch {
    // Damage, and another schema, is reported by what opens the archive.
    return [];
  }
}
