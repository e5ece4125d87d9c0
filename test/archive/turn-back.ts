import { turnedBack } from './older.ts';

// node turn-back.ts ARCHIVE FORMAT: turns an archive back to an older format, for tests in other languages.
const [root, format] = process.argv.slice(2);
turnedBack(root!, Number(format));
