import { Html, html } from '../core/html.ts';
import { renderSection } from './page-parts.ts';

/** A section of the report, or one sentence on what there is nothing to show of. */
export type ReportPart = Html | QuietSection;

export interface QuietSection {
  readonly name: string;
  readonly text: string;
}

/** The sections as they are; what is quiet stands together after them, so that it takes little room. */
export function arrangeParts(parts: readonly ReportPart[]): Html[] {
  const quiet = parts.filter((part): part is QuietSection => !(part instanceof Html));
  const rows = quiet.map(({ name, text }) => html`<dt>${name}</dt><dd>${text}</dd>\n`);
  return [
    ...parts.filter((part) => part instanceof Html),
    ...(rows.length === 0 ? [] : [renderSection('All quiet', [html`<dl class="facts">\n${rows}</dl>\n`])]),
  ];
}
