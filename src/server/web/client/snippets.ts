import { formatTime } from './format.ts';
import type { LanguageName } from './symbol-state.ts';

/** Rows that a history route returns. */
export interface Selection {
  /** That of the route, and of the variable with the rows. */
  readonly name: string;
  /** At least one. */
  readonly symbols: readonly string[];
  /** Epoch milliseconds, half-open. */
  readonly from: number;
  readonly to: number;
  /** Columns with times, besides `t`. */
  readonly timeColumns?: readonly string[];
  /** Further parameters of the route. Letters, digits and hyphens only. */
  readonly parameters?: Readonly<Record<string, string | number>>;
}

/** The service that the code requests. */
interface SnippetTarget {
  /** `http://host:port` */
  readonly origin: string;
  /** Whether requests need the key, which the code reads from ODDSLAKE_KEY. */
  readonly isKeyRequired: boolean;
}

export const languageLabels: Readonly<Record<LanguageName, string>> = {
  duckdb: 'DuckDB',
  polars: 'polars',
  pandas: 'pandas',
  r: 'R',
  curl: 'curl',
};

/**
 * Code that loads the rows of a selection into a variable of its name, or with curl into a file. A symbol is never more than
 * data in the code: it is escaped in Python, and percent-encoded in R and in the shell.
 */
export function formatSnippet(language: LanguageName, selection: Selection, target: SnippetTarget): string {
  switch (language) {
    case 'duckdb':
      return formatDuckDb(selection, target);
    case 'polars':
      return formatPython(['import polars as pl'], selection, target, `${selection.name} = pl.read_parquet(body)`);
    case 'pandas':
      return formatPython(
        ['import io', 'import pandas as pd'],
        selection,
        target,
        `${selection.name} = pd.read_parquet(io.BytesIO(body))`,
      );
    case 'r':
      return formatR(selection, target);
    case 'curl':
      return formatCurl(selection, target);
  }
}

const formatDuckDb = (selection: Selection, target: SnippetTarget): string =>
  formatPython(
    ['import duckdb'],
    selection,
    target,
    `with open("${selection.name}.parquet", "wb") as file:
    file.write(body)
duckdb.sql("SET TimeZone = 'UTC'")
${selection.name} = duckdb.sql("FROM '${selection.name}.parquet'")`,
  );

/** Sorted as isort does: modules of Python first. */
function formatPython(imports: readonly string[], selection: Selection, target: SnippetTarget, load: string): string {
  const { name, symbols, from, to, parameters = {} } = selection;
  const standard = ['io', ...(target.isKeyRequired ? ['os'] : []), 'urllib.parse', 'urllib.request'].filter(
    (name) => name !== 'io' || imports.includes('import io'),
  );
  const libraries = imports.filter((line) => line !== 'import io');
  const names = symbols.map(quoteForPython);
  const pairs = [
    `"symbol": ${names.length === 1 ? names[0] : `[${names.join(', ')}]`},`,
    `"from": ${from},  # ${formatTime(from)} UTC`,
    `"to": ${to},  # ${formatTime(to)} UTC, exclusive`,
    ...Object.entries(parameters).map(
      ([name, value]) => `"${name}": ${typeof value === 'number' ? value : quoteForPython(value)},`,
    ),
    '"format": "parquet",',
  ];
  return `import ${standard.join(', ')}
${libraries.join('\n')}

query = {
${pairs.map((pair) => `    ${pair}`).join('\n')}
}
url = ${quoteForPython(`${target.origin}/api/v1/historical/${name}?`)} + urllib.parse.urlencode(query, doseq=True)
request = urllib.request.Request(url)
${target.isKeyRequired ? 'request.add_header("Authorization", "Bearer " + os.environ["ODDSLAKE_KEY"])\n' : ''}body = urllib.request.urlopen(request).read()
${load}
print(${name})
`;
}

/** For base R, without packages. */
function formatR(selection: Selection, target: SnippetTarget): string {
  const { name, timeColumns = [] } = selection;
  const headers = target.isKeyRequired
    ? ', headers = c(Authorization = paste("Bearer", Sys.getenv("ODDSLAKE_KEY")))'
    : '';
  const times = ['t', ...timeColumns].map(
    (column) => `${name}$${column} <- as.POSIXct(${name}$${column}, format = "%Y-%m-%dT%H:%M:%OSZ", tz = "UTC")`,
  );
  return `options(timeout = 600)  # seconds
source <- url(paste0(
  "${target.origin}/api/v1/historical/${name}",
  "?${formatQuery(selection, 'csv')}"
)${headers})
${name} <- read.csv(source, colClasses = c(symbol = "character"), na.strings = "", encoding = "UTF-8")
${times.join('\n')}
`;
}

function formatCurl(selection: Selection, { origin, isKeyRequired }: SnippetTarget): string {
  const header = isKeyRequired ? `-H "Authorization: Bearer $ODDSLAKE_KEY" ` : '';
  return `curl --fail --silent --show-error ${header}\\
  --output ${selection.name}.csv \\
  '${origin}/api/v1/historical/${selection.name}?${formatQuery(selection, 'csv')}'
`;
}

/** The query of a URL. It has no character that a shell or a string of R treats specially, except the & within quotes. */
function formatQuery({ symbols, from, to, parameters = {} }: Selection, format: string): string {
  const query = new URLSearchParams();
  for (const symbol of symbols) query.append('symbol', symbol.toWellFormed());
  for (const [name, value] of Object.entries({ from, to, ...parameters, format })) query.append(name, String(value));
  return String(query);
}

/** A string literal of Python. Characters that are invisible, or that change the direction of text, are escaped. */
export const quoteForPython = (text: string): string =>
  JSON.stringify(text.toWellFormed()).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0)!;
    return code > 0xffff ? `\\U${code.toString(16).padStart(8, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
  });
