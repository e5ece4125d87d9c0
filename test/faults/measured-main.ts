// bin/main.ts, followed by the process's peak memory in kilobytes on standard error.
process.on('exit', () => process.stderr.write(`\nmaxrss ${process.resourceUsage().maxRSS}\n`));
await import('../../bin/main.ts');
