import { formatSnippet } from '../../src/server/web/client/snippets.ts';

// Prints the code of the catalogue page: reads [language, selection, target] triples as JSON from stdin, writes the texts as JSON.

const chunks: Buffer[] = [];
for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
const wanted = JSON.parse(Buffer.concat(chunks).toString('utf8')) as Parameters<typeof formatSnippet>[];
process.stdout.write(JSON.stringify(wanted.map((one) => formatSnippet(...one))));
