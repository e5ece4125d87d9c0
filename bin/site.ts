import { cpSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Marked, type Token, type Tokens } from 'marked';
import { Html, html, palette } from '../src/base/html.ts';

/*
 * Builds the site of the documentation: README.md, every page that it leads to, and the files that these name.
 *   node bin/site.ts FOLDER
 */

const root = join(import.meta.dirname, '..');

/** Targets of links that lead to another site. */
const isElsewhere = (href: string): boolean => /^[a-z]+:/.test(href);

const styles = `${palette}
body { margin: 0 auto; padding: 0 24px 48px; max-width: 920px; background: var(--paper); color: var(--text);
  font: 16px / 1.55 system-ui, sans-serif; overflow-wrap: break-word; }
a { color: var(--accent); } nav { padding: 16px 0; border-bottom: 1px solid var(--line); } nav a { margin-right: 16px; }
pre, code { font-family: var(--mono); font-size: 14px; } code { background: var(--panel); }
pre { padding: 12px; background: var(--panel); overflow-x: auto; } pre code { padding: 0; }
table { display: block; border-collapse: collapse; overflow-x: auto; }
th, td { padding: 4px 10px; border: 1px solid var(--line); text-align: left; vertical-align: top; }`;

/** The anchor of a heading, as GitHub generates it. */
const toAnchor = (text: string): string =>
  text
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');

const toPage = (path: string): string => path.replace(/README\.md$/, 'index.md').replace(/\.md$/, '.html');

/** The target of a link from a page, as a path from the root of the project. */
const resolveTarget = (page: string, href: string): string => join(dirname(page), href.split('#')[0]!);

/** Renders a page. `found` receives each file and folder that it names. */
function renderPage(page: string, markdown: string, found: (path: string) => void): string {
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }: Tokens.Heading) {
        return `<h${depth} id="${toAnchor(text)}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
      },
    },
    walkTokens(token: Token) {
      if (token.type !== 'link' || isElsewhere(token.href) || token.href.startsWith('#')) return;
      found(resolveTarget(page, token.href));
      token.href = token.href.replace(/^[^#]*/, toPage);
    },
  });
  const up = '../'.repeat(page.split('/').length - 1);
  const body = new Html(marked.parse(markdown, { async: false }));
  const title = /^# (.*)$/m.exec(markdown)?.[1] ?? page;
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title === 'oddslake' ? title : `${title} – oddslake`}</title>
<link rel="stylesheet" href="${up}site.css">
</head>
<body>
<nav><a href="${up}index.html">oddslake</a><a href="${up}docs/index.html">All pages</a></nav>
<main>
${body}</main>
</body>
</html>
`.text;
}

/** Builds the site into a folder, which is emptied before. Returns the pages. */
export function buildSite(folder: string): string[] {
  rmSync(folder, { recursive: true, force: true });
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  const pending = new Set(['README.md', 'docs/README.md']);
  const pages: string[] = [];
  for (const path of pending) {
    const source = join(root, path);
    // findBrokenLinks names the links to a file that is missing.
    if (!existsSync(source)) continue;
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    cpSync(source, join(folder, path));
    if (!path.endsWith('.md')) continue;
    pages.push(path);
    write(
      toPage(path),
      renderPage(path, readFileSync(source, 'utf8'), (target) => pending.add(target)),
    );
  }
  write('site.css', styles);
  writeLlmsTexts(pages, write);
  return pages;
}

/** `llms.txt` lists the pages, `llms-full.txt` has their text (https://llmstxt.org). */
function writeLlmsTexts(pages: readonly string[], write: (path: string, text: string) => void): void {
  const read = (path: string): string => readFileSync(join(root, path), 'utf8');
  const { description } = JSON.parse(read('package.json')) as { description: string };
  const index = read('docs/README.md');
  const list = index
    .slice(index.indexOf('## '))
    .replace(/\]\((?!\.\.\/)/g, '](docs/')
    .replaceAll('](../', '](');
  write(
    'llms.txt',
    `# oddslake\n\n> ${description}\n\n- [README.md](README.md): what it is and how to use it.\n\n${list}`,
  );
  const forUsers = pages.filter((path) => path === 'README.md' || path.startsWith('docs/'));
  write('llms-full.txt', forUsers.map((path) => `<!-- ${path} -->\n\n${read(path)}`).join('\n'));
}

/** Links of the pages in a folder that lead nowhere, each as `page: link`. */
export function findBrokenLinks(folder: string): string[] {
  const pages = globSync('**/*.html', { cwd: folder }).sort();
  const read = (path: string): string => readFileSync(join(folder, path), 'utf8');
  return pages.flatMap((page) =>
    [...read(page).matchAll(/ href="([^"]+)"/g)]
      .map(([, href]) => href!.replaceAll('&amp;', '&'))
      .filter((href) => {
        if (isElsewhere(href)) return false;
        const path = href.startsWith('#') ? page : resolveTarget(page, href);
        const [, anchor] = href.split('#');
        if (!existsSync(join(folder, path))) return true;
        return anchor !== undefined && path.endsWith('.html') && !read(path).includes(` id="${anchor}"`);
      })
      .map((href) => `${page}: ${href}`),
  );
}

if (process.argv[1] === import.meta.filename) {
  const [folder] = process.argv.slice(2);
  if (folder === undefined) throw new Error('usage: node bin/site.ts FOLDER');
  const pages = buildSite(folder);
  const broken = findBrokenLinks(folder);
  if (broken.length > 0) throw new Error(`links without a target:\n${broken.join('\n')}`);
  console.log(`site: ${pages.length} pages in ${folder}, every link has a target`);
}
