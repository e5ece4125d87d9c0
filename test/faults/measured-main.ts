// bin/main.ts with a last word on standard error: the most memory that the process had, in kilobytes.
process.on('exit', () => process.stderr.write(`\nmaxrss ${process.resourceUsage().maxRSS}\n`));
await import('../../bin/main.ts');
