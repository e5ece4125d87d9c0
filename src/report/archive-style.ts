/** What the report on an archive has of its own, beside the style of every page. */
export const archiveStyle = `
header .note { margin-top: 2px; }
.verdict { margin-top: 20px; padding: 16px 20px; border-radius: 10px; border: 1px solid var(--line); background: var(--panel); }
.verdict.well { background: var(--good-soft); border-color: transparent; }
.verdict.look { background: var(--warn); border-color: transparent; }
.verdict.act { background: var(--bad-soft); border-color: transparent; }
.headline { font-size: 20px; font-weight: 600; line-height: 1.3; }
.headline .sign { display: inline-block; width: 1.3em; }
.well .headline .sign { color: var(--good); }
.look .headline .sign { color: var(--gap); }
.act .headline .sign { color: var(--bad); }
.next { margin-top: 4px; font-weight: 600; }
.well .next { font-weight: 400; }
.verdict ul { margin: 10px 0 0; padding: 0; list-style: none; }
.verdict li { position: relative; margin-top: 5px; padding-left: 22px; }
.verdict li .sign { position: absolute; left: 2px; font-weight: 600; }
.verdict li.act .sign { color: var(--bad); }
figure + figure, .figures + figure { margin-top: 22px; }
.strip { display: flex; flex-wrap: wrap; gap: 3px; margin: 8px 0 0; padding: 0; list-style: none; }
.strip li, .mark {
  display: inline-flex; align-items: center; justify-content: center; position: relative;
  width: 24px; height: 28px; border-radius: 4px; font-size: 13px; font-weight: 700; line-height: 1;
}
.mark { width: 18px; height: 18px; font-size: 11px; }
.strip .good, .mark.good { background: var(--good-soft); color: var(--good); }
.strip .fair, .mark.fair { background: var(--warn); color: var(--text); box-shadow: inset 0 0 0 1px var(--gap); }
.strip .poor, .mark.poor { background: var(--level-0); color: var(--text); box-shadow: inset 0 0 0 1px var(--gap); }
.strip .bad, .mark.bad { background: var(--bad); color: var(--paper); }
.strip .idle, .mark.idle { background: var(--panel); color: var(--muted); box-shadow: inset 0 0 0 1px var(--line); }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.keys { display: flex; flex-wrap: wrap; gap: 4px 18px; margin-top: 10px; color: var(--muted); font-size: 13px; }
.key { display: inline-flex; align-items: center; gap: 6px; }
.swatch { width: 14px; height: 14px; border-radius: 3px; }
.only-narrow { display: none; }
.runs { margin-top: 14px; }
.note + .scroll { margin-top: 8px; }
.level-0 { background: var(--level-0); }
.level-1 { background: var(--level-1); }
.level-2 { background: var(--level-2); }
.level-3 { background: var(--level-3); }
.level-4 { background: var(--level-4); }
.level-5 { background: var(--level-5); }
details table { margin-top: 8px; }
@media (max-width: 640px) {
  .verdict { padding: 12px 14px; }
  .figures dd { font-size: 17px; }
  .only-narrow { display: inline-flex; }
  /* A run is a line of its moment, job, outcome, time and ticks, and below it what it said. */
  .runs thead { display: none; }
  .runs tbody, .runs table { display: block; }
  .runs tr { display: flex; flex-wrap: wrap; padding: 4px 0; border-bottom: 1px solid var(--line); }
  .runs td { padding: 1px 12px 1px 0; border: 0; }
  .runs td:nth-child(n + 6):not(:last-child), .runs td:empty { display: none; }
  .runs td:nth-child(5)::after { content: " new ticks"; }
  .runs td:last-child { flex-basis: 100%; }
  .strip li { width: 21px; height: 26px; }
}
@media print {
  .strip li, .mark, .swatch, .verdict { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
`;
